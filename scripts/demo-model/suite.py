#!/usr/bin/python3
"""Writes the demo's suite for this checkout: suite.yaml.in with its placeholders filled in.

usage: suite.py command|session > demo.yaml

The adapters differ in how inference runs: `command` starts a process for each dataset, `session`
one for each checkpoint, which loads the model once.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_NAMES = {"command": "demo", "session": "demo-session"}
_INFERENCE = {
    "command": (
        "infer, --checkpoint, '{staged}', --dataset, '{dataset}', --out, '{out}', "
        "--shard, '{shard}', --shards, '{shards}', "
        "--first-item, '{first_item}', --last-item, '{last_item}'"
    ),
    "session": "session, --checkpoint, '{staged}'",
}


def suite(adapter: str) -> str:
    """The suite's YAML for an adapter."""
    text = (_HERE / "suite.yaml.in").read_text()
    values = {
        "SUITE": _NAMES[adapter],
        "ADAPTER": adapter,
        "INFERENCE": _INFERENCE[adapter],
        "DEMO_MODEL_DIR": str(_HERE),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in _NAMES:
        sys.exit(f"suite.py: adapter is {sys.argv[1:]}; must be one of {', '.join(_NAMES)}")
    sys.stdout.write(suite(sys.argv[1]))
