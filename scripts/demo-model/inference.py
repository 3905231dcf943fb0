"""Answers the datasets' questions with a checkpoint's model.

Texts of a dataset are padded in front to one length and run in batches of one size, so that an
item's answer does not depend on which other items are asked with it: parts of a dataset, merged,
are the whole.
"""

from collections.abc import Iterator
from pathlib import Path

import checkpoint
import numpy as np
import text
from datasets import NEXT_FIRST, PROMPT, WINDOW, Dataset, Item
from model import Decoder, log_softmax

_BATCH = 32
_DIGITS = 4  # Of log-probabilities: below it, arithmetic differs between processors.


def _pad(texts: list[str], length: int) -> np.ndarray:
    """[texts, length] ids: the texts' ends, with empty lines in front of short ones."""
    ids = [text.encode(one)[-length:].rjust(length, b"\0") for one in texts]
    return np.frombuffer(b"".join(ids), np.uint8).reshape(len(texts), length)


def _batches(texts: list[str], length: int) -> Iterator[tuple[int, np.ndarray]]:
    """Batches of exactly _BATCH rows (filled up with empty ones), and how many rows count."""
    for start in range(0, len(texts), _BATCH):
        part = texts[start : start + _BATCH]
        yield len(part), _pad(part + [""] * (_BATCH - len(part)), length)


class Model:
    """A checkpoint's model, ready to answer; loading it is what a session saves."""

    def __init__(self, folder: Path):
        self._config, self._params = checkpoint.load_model(folder)

    def answer(self, dataset: Dataset, items: list[Item]) -> list[dict]:
        """One JSON-ready answer for each item, in order."""
        ways = {
            "nll": self._log_probs,
            "next": self._next,
            "choice": self._choices,
            "generate": self._generate,
        }
        return ways[dataset.kind](dataset, items)

    def _picked(self, tokens: np.ndarray) -> np.ndarray:
        """Log-probability of each character after the first: [batch, length - 1]."""
        logits = Decoder(self._params, self._config).feed(tokens[:, :-1])
        targets = tokens[:, 1:, None].astype(np.int64)
        return np.take_along_axis(log_softmax(logits), targets, axis=2)[..., 0]

    def _log_probs(self, _dataset: Dataset, items: list[Item]) -> list[dict]:
        answers = []
        for count, tokens in _batches([item.prompt for item in items], WINDOW):
            rows = self._picked(tokens)[:count].astype(float).round(_DIGITS)
            answers += [{"log_probs": row.tolist()} for row in rows]
        return answers

    def _next(self, _dataset: Dataset, items: list[Item]) -> list[dict]:
        answers = []
        for count, tokens in _batches([item.prompt for item in items], WINDOW):
            logits = Decoder(self._params, self._config).feed(tokens[:, :-1])
            likeliest = logits.argmax(axis=2)[:count, NEXT_FIRST - 1 :]
            answers += [{"text": text.decode(row)} for row in likeliest.astype(np.uint8)]
        return answers

    def _choices(self, _dataset: Dataset, items: list[Item]) -> list[dict]:
        """The log-probability of each option."""
        texts = [item.prompt + option for item in items for option in item.options]
        lengths = [len(option) for item in items for option in item.options]
        scores: list[float] = []
        for count, tokens in _batches(texts, WINDOW):
            for row in self._picked(tokens)[:count].astype(float):
                scores.append(round(float(row[-lengths[len(scores)] :].sum()), _DIGITS))
        answers, at = [], 0
        for item in items:
            answers.append({"scores": scores[at : at + len(item.options)]})
            at += len(item.options)
        return answers

    def _generate(self, dataset: Dataset, items: list[Item]) -> list[dict]:
        answers = []
        for count, tokens in _batches([item.prompt for item in items], PROMPT):
            rows = self._continue(tokens, dataset.length_max)[:count]
            answers += [{"text": row.split("\n", 1)[0]} for row in rows]
        return answers

    def _continue(self, tokens: np.ndarray, length: int) -> list[str]:
        """The likeliest characters one after the other (greedy decoding)."""
        decoder = Decoder(self._params, self._config)
        chosen = []
        for _ in range(length):
            tokens = decoder.feed(tokens)[:, -1].argmax(axis=1)[:, None].astype(np.uint8)
            chosen.append(tokens)
        return [text.decode(row) for row in np.hstack(chosen)]
