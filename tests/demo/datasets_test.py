"""Tests of the datasets: repeatable items, held-out text, and scores that mean what they say."""

import math
import tempfile
import unittest
from pathlib import Path

import datasets
import text


def _perfect(dataset: datasets.Dataset, index: int) -> dict:
    item = dataset.item(index)
    answers = {
        "nll": {"log_probs": [-math.log(2)] * 127},
        "next": {"text": item.prompt[datasets.NEXT_FIRST :]},
        "choice": {"scores": [-0.5] + [-1.0] * (len(item.options) - 1)},
        "generate": {"text": item.answer},
    }
    return {"item": index} | answers[dataset.kind]


class DatasetsTest(unittest.TestCase):
    def test_an_item_depends_on_its_number_only(self) -> None:
        for dataset in datasets.ALL.values():
            with self.subTest(dataset.name):
                backward = [dataset.item(index) for index in reversed(range(8))]
                self.assertEqual([dataset.item(index) for index in range(8)], backward[::-1])
                self.assertGreater(len({item.prompt for item in backward}), 6)

    def test_held_out_text_is_not_trained_on(self) -> None:
        texts = text.training_texts()
        for kind in ("prose", "python", "docs"):
            for index in range(100):
                window = datasets.ALL[f"{kind}_ppl"].item(index).prompt
                self.assertFalse(window in texts[kind], window)

    def test_made_questions_are_not_trained_on(self) -> None:
        texts = text.training_texts()
        makers = {"copy": "copies", "brackets": "brackets"}
        for name, maker in makers.items():
            for index in range(20):
                item = datasets.ALL[name].item(index)
                asked = item.prompt.rsplit("\n", 1)[-1] + item.answer + "\n"
                self.assertFalse("\n" + asked in texts[maker], asked)

    def test_perfect_answers_score_full_marks(self) -> None:
        for dataset in datasets.ALL.values():
            with self.subTest(dataset.name):
                result = datasets.score(dataset, [_perfect(dataset, index) for index in range(6)])
                self.assertEqual(result["items"], 6)
                expected = 2.0 if dataset.kind == "nll" else 1.0
                self.assertAlmostEqual(result["metrics"][result["primary"]], expected)
                self.assertAlmostEqual(result["metrics"][result["primary"] + "_stderr"], 0.0)

    def test_the_error_of_a_mean_is_that_of_the_sample(self) -> None:
        dataset = datasets.ALL["copy"]
        answers = [_perfect(dataset, index) for index in range(4)]
        answers[0]["text"] = "wrong"
        metrics = datasets.score(dataset, answers)["metrics"]
        self.assertAlmostEqual(metrics["exact_match"], 0.75)
        self.assertAlmostEqual(metrics["exact_match_stderr"], 0.25)

    def test_equal_scores_of_options_are_no_hit(self) -> None:
        dataset = datasets.ALL["cloze"]
        answers = [{"item": 0, "scores": [-1.0, -1.0, -2.0, -3.0]}]
        self.assertEqual(datasets.score(dataset, answers)["metrics"]["acc"], 0.0)

    def test_code_that_does_something_else_fails(self) -> None:
        dataset = datasets.ALL["code_run"]
        for wrong in ("1", "None", "x[", "undefined"):
            answers = [{"item": index, "text": wrong} for index in range(4)]
            self.assertEqual(datasets.score(dataset, answers)["metrics"]["pass_at_1"], 0.0)

    def test_code_that_takes_memory_without_end_fails(self) -> None:
        self.assertFalse(datasets.program_passes("x = 'a' * (1 << 40)"))
        self.assertTrue(datasets.program_passes("pass"))

    def test_code_that_writes_files_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = f"open({folder + '/x'!r}, 'wb', buffering=0).write(b'x')"
            self.assertFalse(datasets.program_passes(program))
            self.assertEqual((Path(folder) / "x").stat().st_size, 0)
