#!/usr/bin/python3
"""Pretrains the demo's character model on one core and writes checkpoints.

Going on after an interruption gives bit for bit what an uninterrupted training gives: a batch
depends on the seed and the step only, and a checkpoint holds the optimizer's moments.
"""

import os

# One core is what the demo's job asks for; these must be set before numpy is loaded.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import json
import math
import signal
import statistics
import sys
import time
from pathlib import Path

import checkpoint
import numpy as np
import text
from model import Config, Params, init, loss_and_grads

_BETAS = (0.9, 0.97)
_ADAM_EPSILON = 1e-8
_WARMUP_STEPS = 20
# Shares of a batch's windows by kind of text; a kind that is not listed counts 1.
_SHARES = {
    "prose": 4,
    "python": 6,
    "docs": 4,
    "sums": 4,
    "copies": 4,
    "brackets": 3,
    "functions": 4,
}
# Exit status of a trainer that was told to stop, as the shell reports SIGTERM.
_EXIT_STOPPED = 143


class Adam:
    """Adam with a cosine schedule; of the embedding it touches only the rows a batch used."""

    def __init__(self, params: Params, learning_rate: float, steps: int):
        self._params = params
        self._learning_rate = learning_rate
        self._steps = steps
        self.moments: dict[str, np.ndarray] = {}
        for name, value in params.items():
            self.moments[f"first.{name}"] = np.zeros_like(value)
            self.moments[f"second.{name}"] = np.zeros_like(value)

    def _rate(self, step: int) -> float:
        warmup = min(1.0, step / _WARMUP_STEPS)
        progress = min(1.0, step / self._steps)
        correction = math.sqrt(1 - _BETAS[1] ** step) / (1 - _BETAS[0] ** step)
        return (
            self._learning_rate * warmup * correction * (0.55 + 0.45 * math.cos(math.pi * progress))
        )

    def update(self, grads: Params, step: int) -> None:
        """Applies the gradients of `step` (the first is 1) to the parameters."""
        rate = self._rate(step)
        for name in self._params:
            rows = grads["embed_rows"] if name == "embed" else slice(None)
            self._update_rows(name, rows, grads[name], rate)

    def _update_rows(self, name: str, rows, grad: np.ndarray, rate: float) -> None:
        first = self.moments[f"first.{name}"][rows]
        second = self.moments[f"second.{name}"][rows]
        first = first + (1 - _BETAS[0]) * (grad - first)
        second = second + (1 - _BETAS[1]) * (grad * grad - second)
        self.moments[f"first.{name}"][rows] = first
        self.moments[f"second.{name}"][rows] = second
        self._params[name][rows] -= rate * first / (np.sqrt(second) + _ADAM_EPSILON)


class Batches:
    """Windows of the training text, drawn anew for each step from the seed and the step."""

    def __init__(self, texts: dict[str, str], seed: int, batch: int, context: int):
        kinds = sorted(texts)
        self._ids = [np.frombuffer(text.encode(texts[kind]), np.uint8) for kind in kinds]
        for kind, ids in zip(kinds, self._ids, strict=True):
            if len(ids) <= context + 1:
                raise ValueError(f"text {kind}: {len(ids)} characters; need over {context + 1}")
        shares = np.array([_SHARES.get(kind, 1) for kind in kinds], float)
        self._shares = shares / shares.sum()
        self._seed, self._batch, self._context = seed, batch, context

    def at(self, step: int) -> np.ndarray:
        rng = np.random.default_rng([self._seed, step])
        windows = []
        for kind in rng.choice(len(self._ids), size=self._batch, p=self._shares):
            ids = self._ids[kind]
            start = rng.integers(0, len(ids) - self._context - 1)
            windows.append(ids[start : start + self._context + 1])
        return np.stack(windows)


class StopFlag:
    """Set by SIGTERM: the trainer ends after the step in hand, never amid a checkpoint."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, _signal: int, _frame: object) -> None:
        self.is_set = True


class Trainer:
    """Holds the model and the optimizer, and takes them from step to step."""

    def __init__(self, options: argparse.Namespace, config: Config):
        self._options = options
        self.config = config
        self.step = 0
        self.params = init(config, options.seed)
        self._adam = Adam(self.params, options.learning_rate, options.steps)
        texts = text.folder_texts(options.corpus) if options.corpus else text.training_texts()
        self._batches = Batches(texts, options.seed, options.batch, config.context)

    def resume(self) -> Path | None:
        """Goes on from the newest complete checkpoint, if there is one."""
        folder = checkpoint.newest(self._options.out, self._options.layout)
        if folder is None:
            return None
        trainer, moments = checkpoint.load_trainer(folder)
        if trainer["seed"] != self._options.seed:
            raise ValueError(
                f"{folder}: trained with seed {trainer['seed']}, not {self._options.seed}; "
                "give the same --seed or another --out"
            )
        self.config, params = checkpoint.load_model(folder)
        self.step = trainer["step"]
        self.params.update(params)
        self._adam.moments.update(moments)
        return folder

    def advance(self) -> float:
        """Takes one step and returns its loss."""
        self.step += 1
        loss, grads = loss_and_grads(self.params, self._batches.at(self.step), self.config)
        self._adam.update(grads, self.step)
        return loss

    def save(self, loss: float) -> Path:
        state = {"step": self.step, "seed": self._options.seed, "loss": loss}
        return checkpoint.save(
            self._options.out,
            self._options.layout,
            self.config,
            self.params,
            self._adam.moments,
            state,
        )


def _beat(line: str) -> None:
    """Tells a watchdog that training goes on, where one has asked for it."""
    path = os.environ.get("COEVAL_HEARTBEAT")
    if path:
        with open(path, "a", encoding="ascii") as file:
            file.write(line + "\n")


def _is_checkpoint_step(step: int, options: argparse.Namespace) -> bool:
    return step == options.steps or step % options.checkpoint_every == 0


def train(options: argparse.Namespace, trainer: Trainer, stop: StopFlag) -> dict:
    """Runs the remaining steps and returns the report."""
    resumed_from = trainer.resume()
    if resumed_from:
        print(f"going on from {resumed_from} (step {trainer.step})", flush=True)
    first_step, started = trainer.step, time.time()
    step_times, losses, checkpoints = [], [], []
    while trainer.step < options.steps and not stop.is_set:
        begin = time.perf_counter()
        loss = trainer.advance()
        step_times.append(time.perf_counter() - begin)
        losses.append(loss)
        line = f"step {trainer.step} loss {loss:.4f} step_s {step_times[-1]:.3f}"
        print(line, flush=True)
        _beat(line)
        if _is_checkpoint_step(trainer.step, options):
            folder = trainer.save(loss)
            checkpoints.append(
                {"step": trainer.step, "path": str(folder), "written_at": time.time()}
            )
            print(f"checkpoint {folder}", flush=True)
    ended = time.time()
    return {
        "first_step": first_step,
        "last_step": trainer.step,
        "finished": trainer.step >= options.steps,
        "started_at": started,
        "ended_at": ended,
        "train_s": ended - started,
        "step_median_s": statistics.median(step_times) if step_times else None,
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "checkpoints": checkpoints,
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoints")
    parser.add_argument("--steps", type=int, default=480, help="steps in all")
    parser.add_argument(
        "--checkpoint-every", type=int, default=80, help="steps between checkpoints"
    )
    parser.add_argument("--layout", choices=checkpoint.LAYOUTS, default="rename")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--corpus", type=Path, help="folder of *.txt files instead of the usual text"
    )
    parser.add_argument("--batch", type=int, default=16, help="windows a step")
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--config", type=json.loads, default={}, help="JSON of other model sizes")
    parser.add_argument("--report", type=Path, help="write times and losses there as JSON")
    options = parser.parse_args(arguments)
    for name in ("steps", "checkpoint_every", "batch"):
        if getattr(options, name) < 1:
            flag = "--" + name.replace("_", "-")
            parser.error(f"{flag} is {getattr(options, name)}; must be at least 1")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    stop = StopFlag()
    options.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(options, Config(**options.config))
    report = train(options, trainer, stop)
    if options.report:
        options.report.write_text(json.dumps(report, indent=2) + "\n")
    print(
        f"trained {report['last_step'] - report['first_step']} steps in {report['train_s']:.1f} s"
    )
    return 0 if report["finished"] else _EXIT_STOPPED


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        sys.exit(f"train.py: {error}")
