"""Writes and reads the model's checkpoint folders, in the layouts that trainers in the field use.

A checkpoint is a folder `step_N`. How a reader knows that it is whole depends on the layout:
`rename`    everything is written under `step_N.tmp`, which is then renamed;
`success`   written in place, then an empty `_SUCCESS`;
`hf-index`  written in place, several weight files and an index that names them.
"""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import safetensors
import text
from model import Config, Params

LAYOUTS = ("rename", "success", "hf-index")
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_OPTIMIZER = "optimizer.safetensors"
_TRAINER = "trainer.json"
_SHARDS = 3


def _write_text(path: Path, content: str) -> None:
    """Writes a small file so that it is either whole or absent."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(content)
    os.replace(temporary, path)


def _write_weights(folder: Path, params: Params) -> None:
    safetensors.save(folder / _WEIGHTS, params, {"format": "np"})


def _write_sharded_weights(folder: Path, params: Params) -> None:
    """Spreads the tensors over several files, as Hugging Face does for large models."""
    names = sorted(params)
    weight_map, total = {}, 0
    for shard in range(_SHARDS):
        file_name = f"model-{shard + 1:05d}-of-{_SHARDS:05d}.safetensors"
        part = {name: params[name] for name in names[shard::_SHARDS]}
        total += safetensors.save(folder / file_name, part, {"format": "np"})
        weight_map |= dict.fromkeys(part, file_name)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _write_text(folder / _INDEX, json.dumps(index, indent=2))


def save(
    out: Path, layout: str, config: Config, params: Params, moments: Params, trainer: dict
) -> Path:
    """Writes the checkpoint of `trainer["step"]` and returns its folder."""
    final = out / f"step_{trainer['step']}"
    folder = final.with_name(final.name + ".tmp") if layout == "rename" else final
    for stale in {folder, final}:
        shutil.rmtree(stale, ignore_errors=True)  # What an interrupted trainer left behind.
    folder.mkdir(parents=True)
    _write_text(folder / "config.json", json.dumps(config.to_json(), indent=2))
    _write_text(folder / "vocab.json", text.vocabulary_json())
    write = _write_sharded_weights if layout == "hf-index" else _write_weights
    write(folder, params)
    safetensors.save(folder / _OPTIMIZER, moments)
    _write_text(folder / _TRAINER, json.dumps(trainer))
    if layout == "rename":
        folder.rename(final)
    if layout == "success":
        (final / "_SUCCESS").touch()
    return final


def newest(out: Path, layout: str) -> Path | None:
    """The complete checkpoint of the highest step under `out`, to go on from."""
    found = []
    for folder in out.glob("step_*"):
        match = re.fullmatch(r"step_(\d+)", folder.name)
        # trainer.json is written after all else, so with it a checkpoint is whole for us.
        whole = (folder / _TRAINER).is_file()
        if layout == "success":
            whole = whole and (folder / "_SUCCESS").is_file()
        if match and whole:
            found.append((int(match.group(1)), folder))
    return max(found)[1] if found else None


def load_model(folder: Path) -> tuple[Config, Params]:
    """Reads what inference needs: the sizes and the weights, from one file or several."""
    config = Config.from_json(json.loads((folder / "config.json").read_text()))
    index = folder / _INDEX
    if not index.is_file():
        return config, safetensors.load(folder / _WEIGHTS)
    params: Params = {}
    for file_name in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        params |= safetensors.load(folder / file_name)
    return config, params


def load_trainer(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Reads what training on needs besides the model: its state and the optimizer's moments."""
    trainer = json.loads((folder / _TRAINER).read_text())
    return trainer, safetensors.load(folder / _OPTIMIZER)
