"""Tests of the harness: its stages, splits, refusals and the session protocol."""

import json
import os
import socket
import subprocess
import sys

import datasets
from support import MODEL_DIR, FolderTest, run

HARNESS = str(MODEL_DIR / "harness.py")
ITEMS = 12


class HarnessTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.train("--steps", "2")
        self.checkpoint = self.folder / "ckpt/step_2"

    def _out(self, name: str) -> str:
        (self.folder / name).mkdir(exist_ok=True)
        return str(self.folder / name)

    def _infer(self, dataset: str, out: str, *more: str) -> subprocess.CompletedProcess:
        command = [HARNESS, "infer", "--checkpoint", str(self.checkpoint), "--dataset", dataset]
        return run([*command, "--out", self._out(out), "--items", str(ITEMS), *more])

    def _score(self, dataset: str, out: str, items: int = ITEMS) -> subprocess.CompletedProcess:
        command = [HARNESS, "score", "--dataset", dataset]
        return run([*command, "--out", self._out(out), "--items", str(items)])

    def _lines(self, out: str) -> list[str]:
        paths = sorted((self.folder / out).glob("predictions-*.jsonl"))
        return [line for path in paths for line in path.read_text().splitlines()]

    def test_each_dataset_gives_a_result(self) -> None:
        for dataset in datasets.ALL.values():
            with self.subTest(dataset.name):
                out = dataset.name
                done = self._infer(dataset.name, out)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self._score(dataset.name, out)
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads((self.folder / out / "result.json").read_text())
                self.assertEqual(result["items"], ITEMS)
                self.assertEqual(result["primary"], dataset.primary)
                self.assertIn(dataset.primary + "_stderr", result["metrics"])

    def test_parts_merged_are_the_whole(self) -> None:
        for dataset in ("prose_ppl", "copy", "cloze"):
            with self.subTest(dataset):
                self._infer(dataset, "whole" + dataset)
                bounds = [(0, 4), (5, 5), (6, ITEMS - 1)]
                for shard, (first, last) in enumerate(bounds):
                    part = ["--first-item", str(first), "--last-item", str(last)]
                    part += ["--shard", str(shard), "--shards", "3"]
                    self.assertEqual(self._infer(dataset, "parts" + dataset, *part).returncode, 0)
                self.assertEqual(self._lines("parts" + dataset), self._lines("whole" + dataset))
                self._score(dataset, "whole" + dataset)
                self._score(dataset, "parts" + dataset)
                results = [
                    (self.folder / (name + dataset) / "result.json").read_text()
                    for name in ("whole", "parts")
                ]
                self.assertEqual(results[0], results[1])

    def test_missing_predictions_are_no_score(self) -> None:
        done = self._score("copy", "empty")
        self.assertEqual(done.returncode, 1)
        self.assertIn("0 predictions of 12 items of copy; the first missing is 0", done.stderr)
        self.assertFalse((self.folder / "empty/result.json").exists())

    def test_too_few_predictions_are_no_score(self) -> None:
        self._infer("copy", "short", "--last-item", "8")
        done = self._score("copy", "short")
        self.assertEqual(done.returncode, 1)
        self.assertIn("9 predictions of 12 items of copy; the first missing is 9", done.stderr)

    def test_doubled_predictions_are_no_score(self) -> None:
        self._infer("copy", "double", "--shards", "2")
        self._infer("copy", "double", "--shards", "2", "--shard", "1")
        done = self._score("copy", "double")
        self.assertEqual(done.returncode, 1)
        self.assertIn("item 0 is there twice", done.stderr)

    def test_a_cut_prediction_is_no_score(self) -> None:
        self._infer("copy", "cut")
        (path,) = (self.folder / "cut").glob("predictions-*")
        path.write_text(path.read_text()[:-5])
        done = self._score("copy", "cut")
        self.assertEqual(done.returncode, 1)
        self.assertIn("jsonl:12:", done.stderr)

    def test_a_missing_or_cut_checkpoint_asks_for_another_node(self) -> None:
        weights = self.checkpoint / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        self.assertEqual(self._infer("copy", "out").returncode, 75)
        weights.unlink()
        self.assertEqual(self._infer("copy", "out").returncode, 75)
        self.assertEqual(self._lines("out"), [])

    def test_items_out_of_range_and_unknown_datasets_are_refused(self) -> None:
        done = self._infer("copy", "out", "--first-item", "3", "--last-item", "12")
        self.assertEqual(done.returncode, 1)
        self.assertIn("items 3..12 of copy asked; it has 0..11", done.stderr)
        done = self._infer("nonsense", "out")
        self.assertEqual(done.returncode, 1)
        self.assertIn("dataset nonsense is unknown; known: prose_ppl", done.stderr)

    def test_scoring_loads_no_numpy(self) -> None:
        program = "import sys; import harness; sys.exit('numpy' in sys.modules)"
        done = run([sys.executable, "-c", program], {"PYTHONPATH": str(MODEL_DIR)})
        self.assertEqual(done.returncode, 0, done.stderr)


class SessionTest(HarnessTest):
    """The session protocol; the tests of the stages are not run again."""

    def setUp(self) -> None:
        super().setUp()
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        ours.settimeout(60)
        with theirs:
            self.process = subprocess.Popen(
                [HARNESS, "session", "--checkpoint", str(self.checkpoint)],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"COEVAL_FD": str(theirs.fileno())},
            )
        self.socket = ours
        self.stream = ours.makefile("rw", encoding="utf-8")
        self.addCleanup(self._end)
        self.assertEqual(self._receive(), {"ready": True})

    def _end(self) -> None:
        self.stream.close()
        self.socket.close()
        self.assertEqual(self.process.wait(timeout=60), 0)

    def _receive(self) -> dict:
        return json.loads(self.stream.readline())

    def _ask(self, **changes: object) -> dict:
        request = {
            "id": "w1", "dataset": "copy", "version": "v1", "shard": 0, "shards": 1,
            "first_item": 0, "last_item": ITEMS - 1, "out": self._out("session"), "seed": 1,
            "args": ["--items", str(ITEMS)],
        }  # fmt: skip
        self.stream.write(json.dumps(request | changes) + "\n")
        self.stream.flush()
        return self._receive()

    def test_a_session_answers_as_single_processes_do(self) -> None:
        self._infer("copy", "single")
        self.assertEqual(self._ask(), {"id": "w1", "ok": True})
        self.assertEqual(self._lines("session"), self._lines("single"))

    def test_a_bad_piece_of_work_does_not_end_the_session(self) -> None:
        bad = self._ask(id="w2", dataset="nonsense")
        self.assertEqual((bad["id"], bad["ok"]), ("w2", False))
        self.assertIn("nonsense is unknown", bad["error"])
        bad = self._ask(id="w3", args=["--itemz", "4"])
        self.assertEqual((bad["id"], bad["ok"]), ("w3", False))
        bad = self._ask(id="w4", out="/does/not/exist")
        self.assertEqual((bad["id"], bad["ok"]), ("w4", False))
        self.stream.write("not json\n")
        self.stream.flush()
        self.assertFalse(self._receive()["ok"])
        self.assertTrue(self._ask()["ok"])


def load_tests(loader, _standard, _pattern):
    """SessionTest inherits helpers; its inherited tests would only repeat HarnessTest's."""
    suite = loader.suiteClass()
    suite.addTests(loader.loadTestsFromTestCase(HarnessTest))
    own = [name for name in vars(SessionTest) if name.startswith("test_")]
    suite.addTests(SessionTest(name) for name in own)
    return suite
