"""The characters that the model knows, and the texts it learns from and is measured on.

All text comes from packages that a Debian 12 with our dependencies has (licences, Python's
standard library, Perl's documentation) or is made here. What is held out for measuring is never in
the training text. No numpy here: the metric stage imports this file and must start fast.
"""

import json
import random
import sysconfig
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

# Line end first, then printable ASCII; a character's id is its place in this string.
VOCABULARY = "\n" + "".join(chr(code) for code in range(32, 127))
_UNKNOWN = VOCABULARY.index("?")
_TO_ID = bytes(
    VOCABULARY.index(chr(code)) if chr(code) in VOCABULARY else _UNKNOWN for code in range(256)
)
_TO_CHAR = VOCABULARY.encode("ascii") + b"?" * (256 - len(VOCABULARY))

_LICENCES = Path("/usr/share/common-licenses")
_PERL = Path("/usr/share/perl/5.36.0")
_PYTHON = Path(sysconfig.get_path("stdlib"))
_FILE_CHARS_MAX = 80_000

# Mozilla's older licence shares sentences with the held-out one, so it is in neither text.
_PROSE_TRAINING = ["Artistic", "BSD", "GFDL-1.2", "GPL-1", "GPL-2", "GPL-3", "LGPL-2", "LGPL-3"]
_PROSE_HELD_OUT = ["Apache-2.0", "CC0-1.0", "MPL-2.0"]
_PYTHON_HELD_OUT = [
    "calendar",
    "cmd",
    "csv",
    "fileinput",
    "heapq",
    "selectors",
    "shlex",
    "textwrap",
]
_DOCS_TRAINING = [
    "pod/perldiag.pod", "Locale/Maketext.pod", "Pod/Simple/Subclassing.pod", "Encode/Supported.pod",
    "ExtUtils/MakeMaker/FAQ.pod", "CPAN/Meta/History/Meta_1_4.pod", "TAP/Harness/Beyond.pod",
    "Test2/Transition.pod", "Net/libnetFAQ.pod", "Pod/Simple.pod",
]  # fmt: skip
_DOCS_HELD_OUT = ["IO/Compress/FAQ.pod", "Test/Tutorial.pod", "version/Internals.pod"]


def encode(text: str) -> bytes:
    """Turns text into ids, one byte each. Tabs become spaces, foreign characters `?`."""
    plain = text.replace("\r", "").expandtabs(8)
    return plain.encode("latin-1", "replace").translate(_TO_ID)


def decode(ids: Iterable[int]) -> str:
    """Turns ids back into text."""
    return bytes(ids).translate(_TO_CHAR).decode("ascii")


def vocabulary_json() -> str:
    """What vocab.json of a checkpoint holds: each character with its id."""
    return json.dumps({char: index for index, char in enumerate(VOCABULARY)}, indent=0)


def _read(paths: Iterable[Path]) -> str:
    parts = []
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: the demo's texts need this file; run scripts/deps")
        parts.append(path.read_text(encoding="utf-8", errors="replace")[:_FILE_CHARS_MAX])
    return decode(encode("\n".join(parts)))


def _python_training() -> list[Path]:
    """The public top-level modules of the standard library that are not held out."""
    return [
        path
        for path in sorted(_PYTHON.glob("*.py"))
        if not path.is_symlink() and path.stem[0] != "_" and path.stem not in _PYTHON_HELD_OUT
    ]


@cache
def held_out(kind: str) -> str:
    """The text of `kind` (prose, python, docs) that training never sees."""
    files = {
        "prose": [_LICENCES / name for name in _PROSE_HELD_OUT],
        "python": [_PYTHON / f"{name}.py" for name in _PYTHON_HELD_OUT],
        "docs": [_PERL / name for name in _DOCS_HELD_OUT],
    }
    return _read(files[kind])


# Made text. Each function makes one line (or snippet) from a random source; the datasets use the
# same functions, and `is_held_out` keeps their items out of the training text.


def is_held_out(key: str) -> bool:
    """Whether a made example is kept for measuring: one in five, by a hash of its own."""
    value = 0
    for char in key:
        value = (value * 31 + ord(char)) % 1_000_003
    return value % 5 == 0


def sum_line(rng: random.Random) -> tuple[str, str]:
    """`12+7=` and `19`. There are only 400: knowing them by heart is what is measured."""
    left, right = rng.randrange(20), rng.randrange(20)
    return f"{left}+{right}=", str(left + right)


def _letters(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefgh") for _ in range(rng.randint(3, 6)))


def copy_line(rng: random.Random) -> tuple[str, str]:
    """`bedaf>` and `bedaf`."""
    word = _letters(rng)
    return f"{word}>", word


def bracket_line(rng: random.Random) -> tuple[str, str]:
    """`([{:` and `}])`."""
    opened = "".join(rng.choice("([{<") for _ in range(rng.randint(2, 6)))
    closed = opened[::-1].translate(str.maketrans("([{<", ")]}>"))
    return f"{opened}:", closed


_FUNCTIONS = [
    ("get_{w}(x)", 'x["{w}"]'),
    ("is_{w}(x)", 'x == "{w}"'),
    ("has_{w}(x)", '"{w}" in x'),
    ("add_{w}(x)", 'x + "{w}"'),
    ("set_{w}(x)", '{{"{w}": x}}'),
    ("list_{w}(x)", '[x, "{w}"]'),
]


def function_snippet(rng: random.Random) -> tuple[str, str]:
    """`def add_bead(x):` with the start of its body, and the rest of the body."""
    head, body = rng.choice(_FUNCTIONS)
    word = _letters(rng)
    return f"def {head.format(w=word)}:\n    return ", body.format(w=word)


Maker = Callable[[random.Random], tuple[str, str]]
MAKERS: dict[str, Maker] = {
    "sums": sum_line,
    "copies": copy_line,
    "brackets": bracket_line,
    "functions": function_snippet,
}


def _made(name: str, count: int) -> str:
    rng = random.Random(f"training {name}")
    lines = []
    for _ in range(count):
        prompt, answer = MAKERS[name](rng)
        if name == "sums" or not is_held_out(prompt):
            lines.append(prompt + answer + "\n")
    return "".join(lines)


def training_texts() -> dict[str, str]:
    """The training text by kind; the trainer mixes the kinds."""
    texts = {
        "prose": _read(_LICENCES / name for name in _PROSE_TRAINING),
        "python": _read(_python_training()),
        "docs": _read(_PERL / name for name in _DOCS_TRAINING),
    }
    return texts | {name: _made(name, 8000) for name in MAKERS}


def folder_texts(folder: Path) -> dict[str, str]:
    """The `*.txt` files of a folder as training text: one kind a file."""
    texts = {path.stem: _read([path]) for path in sorted(folder.glob("*.txt"))}
    if not texts:
        raise FileNotFoundError(f"{folder}: no *.txt file; --corpus needs at least one")
    return texts
