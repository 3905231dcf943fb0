#!/usr/bin/python3
"""The demo's evaluation harness: inference and scoring as separate stages, with files between.

`infer`    loads a checkpoint, answers the items of a dataset (or a part), writes predictions;
`score`    reads the predictions of all parts, needs no model, writes result.json;
`session`  loads the checkpoint once, then does pieces of inference that it reads as JSON lines
           from the descriptor in COEVAL_FD.
Exit status 75 says that the checkpoint could not be read here: another node may have it.
"""

import os

# A trial's share is its Slurm allocation: one core. These must be set before numpy is loaded.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import json
import socket
import sys
from pathlib import Path

import datasets

_EXIT_TRY_ELSEWHERE = 75
_REQUEST_BYTES_MAX = 1 << 20


def prediction_path(out: Path, dataset: str, shard: int, shards: int) -> Path:
    """Parts of a dataset meet in one folder for scoring, so a part's number is in its name."""
    return out / f"predictions-{dataset}-{shard:05d}-of-{shards:05d}.jsonl"


def infer(model, dataset: datasets.Dataset, options: argparse.Namespace) -> None:
    """Answers items first_item..last_item (inclusive); the file appears whole or not at all."""
    last_item = options.items - 1 if options.last_item is None else options.last_item
    if not 0 <= options.first_item <= last_item < options.items:
        raise ValueError(
            f"items {options.first_item}..{last_item} of {dataset.name} asked; "
            f"it has 0..{options.items - 1}"
        )
    path = prediction_path(options.out, dataset.name, options.shard, options.shards)
    temporary = path.with_name(path.name + ".tmp")
    numbers = list(range(options.first_item, last_item + 1))
    answers = model.answer(dataset, [dataset.item(number) for number in numbers])
    with open(temporary, "w", encoding="ascii") as file:
        for number, answer in zip(numbers, answers, strict=True):
            file.write(json.dumps({"item": number} | answer) + "\n")
    os.replace(temporary, path)


def read_predictions(out: Path, dataset: str, items: int) -> list[dict]:
    """All predictions of a dataset in the order of its items; a gap or a double is an error."""
    by_number: dict[int, dict] = {}
    for path in sorted(out.glob(f"predictions-{dataset}-*.jsonl")):
        for line_number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                prediction = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{line_number}: {error}; run inference again") from error
            if prediction["item"] in by_number:
                raise ValueError(f"{path}:{line_number}: item {prediction['item']} is there twice")
            by_number[prediction["item"]] = prediction
    missing = [number for number in range(items) if number not in by_number]
    if missing or len(by_number) != items:
        where = f"; the first missing is {missing[0]}" if missing else ""
        raise ValueError(
            f"{out}: {len(by_number)} predictions of {items} items of {dataset}{where}"
        )
    return [by_number[number] for number in range(items)]


def score(dataset: datasets.Dataset, options: argparse.Namespace) -> None:
    result = datasets.score(dataset, read_predictions(options.out, dataset.name, options.items))
    temporary = options.out / "result.json.tmp"
    temporary.write_text(json.dumps(result))
    os.replace(temporary, options.out / "result.json")


def load_model(folder: Path):
    import inference  # Here, not above: scoring must not wait for numpy.

    return inference.Model(folder)


def _dataset(name: str) -> datasets.Dataset:
    if name not in datasets.ALL:
        raise ValueError(f"dataset {name} is unknown; known: {', '.join(datasets.ALL)}")
    return datasets.ALL[name]


class _RequestParser(argparse.ArgumentParser):
    """argparse ends the process on an error; a session must go on."""

    def error(self, message: str) -> None:
        raise ValueError(message)


def _item_options(arguments: list[str]) -> argparse.Namespace:
    """The suite's own arguments of a dataset, which come with each request of a session."""
    parser = _RequestParser(allow_abbrev=False)
    parser.add_argument("--items", type=int, required=True)
    return parser.parse_args(arguments)


def _serve(model, request: dict) -> dict:
    try:
        options = argparse.Namespace(
            items=_item_options(request.get("args", [])).items,
            first_item=request["first_item"],
            last_item=request["last_item"],
            shard=request["shard"],
            shards=request["shards"],
            out=Path(request["out"]),
        )
        infer(model, _dataset(request["dataset"]), options)
    except Exception as error:  # noqa: BLE001 - a bad piece of work must not end the session.
        return {"id": request.get("id"), "ok": False, "error": f"{type(error).__name__}: {error}"}
    return {"id": request["id"], "ok": True}


def session(model, channel: socket.socket) -> None:
    """Answers requests one by one until the other end closes the channel."""
    with channel, channel.makefile("rw", encoding="utf-8") as stream:

        def send(message: dict) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        send({"ready": True})
        while line := stream.readline(_REQUEST_BYTES_MAX):
            try:
                request = json.loads(line)
            except json.JSONDecodeError as error:
                send({"id": None, "ok": False, "error": f"request is not JSON: {error}"})
                continue
            send(_serve(model, request))


def _channel() -> socket.socket:
    descriptor = os.environ.get("COEVAL_FD", "")
    if not descriptor.isdigit():
        raise ValueError(f"COEVAL_FD is {descriptor!r}; must be the number of a descriptor")
    return socket.socket(fileno=int(descriptor))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("infer", "score", "session"):
        command = commands.add_parser(name, allow_abbrev=False)
        if name != "score":
            command.add_argument("--checkpoint", type=Path, required=True)
        if name == "session":
            continue
        command.add_argument("--dataset", required=True)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--items", type=int, required=True, help="items of the whole dataset")
        if name == "infer":
            command.add_argument("--first-item", type=int, default=0)
            command.add_argument("--last-item", type=int, help="inclusive")
            command.add_argument("--shard", type=int, default=0)
            command.add_argument("--shards", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.command == "score":
        score(_dataset(options.dataset), options)
        return 0
    dataset = _dataset(options.dataset) if options.command == "infer" else None
    try:
        model = load_model(options.checkpoint)
    except (OSError, ValueError, KeyError) as error:
        print(f"harness.py: checkpoint {options.checkpoint}: {error}", file=sys.stderr)
        return _EXIT_TRY_ELSEWHERE
    if dataset is None:
        session(model, _channel())
    else:
        infer(model, dataset, options)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        sys.exit(f"harness.py: {error}")
