"""The demo's datasets: what is asked, and how answers are scored.

An item depends on its dataset's name and its number only, so any process can make any part of a
dataset, in any order. No numpy here: the metric stage needs only this file and the predictions.

A dataset is of one of four kinds, which say what the model is asked for:
`nll`       log-probabilities of a text's characters;
`next`      the likeliest next character at each place of a text;
`choice`    log-probabilities of several endings of a text, of which the first is right;
`generate`  an ending of its own, up to the end of the line.
"""

import math
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import text

WINDOW = 128  # Characters of a window, prompts included: the model's context.
PROMPT = 96  # Characters of a prompt, so that what is asked for still fits.
NEXT_FIRST = 32  # `next` asks from this place on, where the model has seen some context.
_SHOTS = 4
_RUN_TIME_LIMIT_S = 5
_RUN_MEMORY_BYTES_MAX = 512 << 20


@dataclass(frozen=True)
class Item:
    """One question. `options` are for kind `choice`; `answer` and `check` for `generate`."""

    prompt: str
    options: tuple[str, ...] = ()
    answer: str = ""
    check: str = ""


@dataclass(frozen=True)
class Dataset:
    name: str
    kind: str
    primary: str
    make: Callable[[random.Random], Item]
    length_max: int = 0  # Characters to generate.

    def item(self, index: int) -> Item:
        return self.make(random.Random(f"{self.name} {index}"))


def _window(kind: str, rng: random.Random) -> Item:
    held_out = text.held_out(kind)
    start = rng.randrange(len(held_out) - WINDOW)
    return Item(held_out[start : start + WINDOW])


def _any_window(rng: random.Random) -> Item:
    return _window(rng.choice(["prose", "python", "docs"]), rng)


@cache
def _words(kind: str) -> tuple[str, ...]:
    """The words of a held-out text, each once."""
    return tuple(sorted(set(re.findall(r"\b[a-z]{3,10}\b", text.held_out(kind)))))


@cache
def _word_places(kind: str, length_min: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        match.span()
        for match in re.finditer(rf"(?<= )[a-z]{{{length_min},10}}(?= )", text.held_out(kind))
        if match.start() > WINDOW
    )


def _word_in_context(rng: random.Random, length_min: int) -> tuple[str, str]:
    """A held-out text up to a word, and that word."""
    kind = rng.choice(["prose", "docs"])
    begin, end = rng.choice(_word_places(kind, length_min))
    held_out = text.held_out(kind)
    return held_out[begin - PROMPT : begin], held_out[begin:end]


def _cloze(rng: random.Random) -> Item:
    """Which word comes next: the right one, or another of its length."""
    prompt, right = _word_in_context(rng, length_min=3)
    alike = [word for word in _words("prose") if len(word) == len(right) and word != right]
    return Item(prompt, tuple(word + " " for word in [right, *rng.sample(alike, 3)]))


def _misspell(word: str, rng: random.Random) -> str:
    place = rng.randrange(1, len(word) - 1)
    swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    other = word[:place] + rng.choice("aeioustrn") + word[place + 1 :]
    doubled = word[:place] + word[place] + word[place:]
    return rng.choice([swapped, other, doubled])


def _spelling(rng: random.Random) -> Item:
    """Which spelling of the next word is right."""
    prompt, right = _word_in_context(rng, length_min=5)
    options = [right]
    while len(options) < 4:
        wrong = _misspell(right, rng)
        if wrong not in options:
            options.append(wrong)
    return Item(prompt, tuple(word + " " for word in options))


def _held_out_example(maker: str, rng: random.Random) -> tuple[str, str]:
    while True:  # Ends: one in five examples is held out.
        prompt, answer = text.MAKERS[maker](rng)
        if text.is_held_out(prompt):
            return prompt, answer


def _after_shots(maker: str, rng: random.Random, prompt: str, answer: str) -> Item:
    """A made example after some others of its kind, which show the model what is asked."""
    shots = "".join("".join(text.MAKERS[maker](rng)) + "\n" for _ in range(_SHOTS))
    return Item((shots + prompt)[-PROMPT:], answer=answer)


def _arithmetic(rng: random.Random) -> Item:
    return _after_shots("sums", rng, *text.sum_line(rng))


def _copy(rng: random.Random) -> Item:
    return _after_shots("copies", rng, *_held_out_example("copies", rng))


def _brackets(rng: random.Random) -> Item:
    return _after_shots("brackets", rng, *_held_out_example("brackets", rng))


@cache
def _block_starts() -> tuple[tuple[int, int], ...]:
    """The spans of held-out Python from a line that opens a block to the next line's first word."""
    spans = re.finditer(r"(?<=:\n) +\w+", text.held_out("python"))
    return tuple(match.span() for match in spans if match.start() > WINDOW)


def _indent(rng: random.Random) -> Item:
    """Which indentation a block's first line has: the right one, or one some levels off."""
    begin, end = rng.choice(_block_starts())
    held_out = text.held_out("python")
    right = held_out[begin:end]
    less = right[4:] if right.startswith(" " * 8) else "  " + right
    wrong = [less, " " * 4 + right, " " * 8 + right]
    return Item(held_out[begin - PROMPT : begin], tuple(option + " " for option in [right, *wrong]))


def _code(rng: random.Random) -> Item:
    """A function to complete; it passes if it does the same as the right one on some arguments."""
    shot = "".join(text.function_snippet(rng)) + "\n"
    prompt, answer = _held_out_example("functions", rng)
    name = re.match(r"def (\w+)", prompt).group(1)
    word = name.split("_")[1]
    check = (
        f"def wanted(x):\n    return {answer}\n"
        f"for argument in ({{{word!r}: 'v7'}}, {word!r}, 'a'):\n"
        f"    try:\n        right = wanted(argument)\n"
        f"    except TypeError:\n        continue\n"
        f"    assert {name}(argument) == right\n"
    )
    return Item((shot + prompt)[-PROMPT:], answer=answer, check=prompt + "{completion}\n" + check)


ALL = {
    dataset.name: dataset
    for dataset in [
        Dataset("prose_ppl", "nll", "ppl", lambda rng: _window("prose", rng)),
        Dataset("python_ppl", "nll", "ppl", lambda rng: _window("python", rng)),
        Dataset("docs_ppl", "nll", "ppl", lambda rng: _window("docs", rng)),
        Dataset("next_char", "next", "acc", _any_window),
        Dataset("cloze", "choice", "acc", _cloze),
        Dataset("spelling", "choice", "acc", _spelling),
        Dataset("arithmetic", "generate", "exact_match", _arithmetic, length_max=4),
        Dataset("copy", "generate", "exact_match", _copy, length_max=8),
        Dataset("brackets", "generate", "exact_match", _brackets, length_max=8),
        Dataset("indent", "choice", "acc", _indent),
        Dataset("code_run", "generate", "pass_at_1", _code, length_max=20),
    ]
}


# Scoring. A prediction is a JSON object with the item's number and what the model answered.


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def _perplexity(predictions: list[dict]) -> dict[str, float]:
    """exp of the mean negative log-probability; its error by the delta method over items."""
    mean, error = _mean_and_error([-sum(p["log_probs"]) / len(p["log_probs"]) for p in predictions])
    return {
        "ppl": math.exp(mean),
        "ppl_stderr": math.exp(mean) * error,
        "bits_per_char": mean / math.log(2),
    }


def _share(dataset: Dataset, hits: list[float]) -> dict[str, float]:
    mean, error = _mean_and_error(hits)
    return {dataset.primary: mean, f"{dataset.primary}_stderr": error}


def _next_hits(dataset: Dataset, prediction: dict) -> float:
    asked = dataset.item(prediction["item"]).prompt[NEXT_FIRST:]
    return sum(a == b for a, b in zip(asked, prediction["text"], strict=True)) / len(asked)


def _choice_hit(_dataset: Dataset, prediction: dict) -> float:
    scores = prediction["scores"]
    return float(all(scores[0] > other for other in scores[1:]))


def _limit_run() -> None:
    """Bounds what a model's code may use; it runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (_RUN_MEMORY_BYTES_MAX, _RUN_MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (_RUN_TIME_LIMIT_S, _RUN_TIME_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def program_passes(program: str) -> bool:
    """Runs a completed program with its assertions; an error or a time-out is a failure."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-"],
            input=program.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_RUN_TIME_LIMIT_S,
            preexec_fn=_limit_run,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _generate_hit(dataset: Dataset, prediction: dict) -> float:
    item = dataset.item(prediction["item"])
    if item.check:
        return float(program_passes(item.check.replace("{completion}", prediction["text"])))
    return float(prediction["text"] == item.answer)


def score(dataset: Dataset, predictions: list[dict]) -> dict:
    """The result (see the harness contract) of a dataset from the predictions of all its items."""
    if dataset.kind == "nll":
        metrics = _perplexity(predictions)
    else:
        hit = {"next": _next_hits, "choice": _choice_hit, "generate": _generate_hit}[dataset.kind]
        metrics = _share(dataset, [hit(dataset, prediction) for prediction in predictions])
    return {"primary": dataset.primary, "metrics": metrics, "items": len(predictions)}
