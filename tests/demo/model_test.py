"""Tests of the model: its gradients, and that decoding piece by piece changes nothing."""

import unittest

import model
import numpy as np

CONFIG = model.Config(width=16, layers=2, heads=4, hidden=24, context=12, hash_rows=64)


def _tokens(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, CONFIG.vocab_size, (batch, length))


class ModelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.params = model.init(CONFIG, 3, np.float64)

    def _loss(self) -> float:
        return model.loss_and_grads(self.params, _tokens(3, 13), CONFIG)[0]

    def _slope(self, name: str, direction: np.ndarray) -> float:
        """The loss's slope along a direction, by finite differences."""
        original, step = self.params[name], 1e-7
        self.params[name] = original + step * direction
        after = self._loss()
        self.params[name] = original - step * direction
        before = self._loss()
        self.params[name] = original
        return (after - before) / (2 * step)

    def test_gradients_agree_with_finite_differences(self) -> None:
        _, grads = model.loss_and_grads(self.params, _tokens(3, 13), CONFIG)
        embed = np.zeros_like(self.params["embed"])
        embed[grads["embed_rows"]] = grads["embed"]
        grads["embed"] = embed
        rng = np.random.default_rng(1)
        for name, value in self.params.items():
            with self.subTest(name):
                direction = rng.standard_normal(value.shape)
                expected = self._slope(name, direction)
                self.assertAlmostEqual(float((grads[name] * direction).sum()), expected, places=6)

    def test_a_character_does_not_see_what_follows(self) -> None:
        tokens = _tokens(1, 12)
        changed = tokens.copy()
        changed[:, 8:] = (changed[:, 8:] + 1) % CONFIG.vocab_size
        one = model.Decoder(self.params, CONFIG).feed(tokens)
        two = model.Decoder(self.params, CONFIG).feed(changed)
        np.testing.assert_allclose(one[:, :8], two[:, :8])
        self.assertFalse(np.allclose(one[:, 8:], two[:, 8:]))

    def test_decoding_piece_by_piece_equals_decoding_at_once(self) -> None:
        tokens = _tokens(2, 12)
        whole = model.Decoder(self.params, CONFIG).feed(tokens)
        decoder = model.Decoder(self.params, CONFIG)
        pieces = [decoder.feed(part) for part in np.split(tokens, [5, 6, 7, 9], axis=1)]
        np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, atol=1e-12)

    def test_the_same_seed_gives_the_same_parameters(self) -> None:
        again = model.init(CONFIG, 3, np.float64)
        other = model.init(CONFIG, 4, np.float64)
        np.testing.assert_array_equal(again["embed"], self.params["embed"])
        self.assertFalse(np.array_equal(other["embed"], self.params["embed"]))
