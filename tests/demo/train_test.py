"""Tests of the trainer and the checkpoints it writes."""

import json
import os
import signal
import subprocess

import checkpoint
import numpy as np
import safetensors
from support import MODEL_DIR, TINY, FolderTest


class TrainTest(FolderTest):
    def _weights(self, name: str) -> bytes:
        return (self.folder / name / "model.safetensors").read_bytes()

    def test_training_lowers_the_loss(self) -> None:
        report = self.folder / "report.json"
        self.train("--steps", "60", "--checkpoint-every", "60", "--report", str(report))
        values = json.loads(report.read_text())
        self.assertTrue(values["finished"])
        self.assertLess(values["last_loss"], 0.75 * values["first_loss"])
        self.assertEqual([made["step"] for made in values["checkpoints"]], [60])

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        for out in ("one", "two"):
            self.train("--steps", "6", "--checkpoint-every", "6", out=out)
        self.train("--steps", "6", "--checkpoint-every", "6", "--seed", "2", out="other")
        self.assertEqual(self._weights("one/step_6"), self._weights("two/step_6"))
        self.assertNotEqual(self._weights("one/step_6"), self._weights("other/step_6"))

    def test_going_on_from_a_checkpoint_equals_an_uninterrupted_training(self) -> None:
        self.train("--steps", "8", "--checkpoint-every", "4", out="whole")
        self.train("--steps", "8", "--checkpoint-every", "4", out="resumed")
        # As if the node had died while step 8 was being written.
        os.rename(self.folder / "resumed/step_8", self.folder / "resumed/step_8.tmp")
        self.train("--steps", "8", "--checkpoint-every", "4", out="resumed")
        self.assertEqual(self._weights("whole/step_8"), self._weights("resumed/step_8"))
        self.assertFalse((self.folder / "resumed/step_8.tmp").exists())

    def test_nothing_is_trained_when_all_steps_are_done(self) -> None:
        self.train("--steps", "4", "--checkpoint-every", "4")
        before = (self.folder / "ckpt/step_4").stat().st_mtime_ns
        self.train("--steps", "4", "--checkpoint-every", "4")
        self.assertEqual((self.folder / "ckpt/step_4").stat().st_mtime_ns, before)

    def test_another_seed_on_old_checkpoints_is_refused(self) -> None:
        self.train("--steps", "4", "--checkpoint-every", "4")
        done = self.try_train("--steps", "8", "--checkpoint-every", "4", "--seed", "7")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "trained with seed 1, not 7; give the same --seed")

    def test_sigterm_leaves_only_whole_checkpoints(self) -> None:
        command = [str(MODEL_DIR / "train.py"), "--out", str(self.folder / "ckpt")]
        command += ["--corpus", str(self.corpus), "--batch", "4", "--config", TINY]
        command += ["--steps", "1000000", "--checkpoint-every", "3"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
            while "checkpoint" not in trainer.stdout.readline():
                pass
            trainer.send_signal(signal.SIGTERM)
            trainer.communicate(timeout=30)
        self.assertEqual(trainer.returncode, 143)
        names = [path.name for path in (self.folder / "ckpt").iterdir()]
        self.assertFalse([name for name in names if name.endswith(".tmp")])
        newest = checkpoint.newest(self.folder / "ckpt", "rename")
        safetensors.load(newest / "model.safetensors")

    def test_each_layout_holds_the_same_model(self) -> None:
        for layout in checkpoint.LAYOUTS:
            with self.subTest(layout):
                self.train("--steps", "2", "--layout", layout, out=layout)
                _, params = checkpoint.load_model(self.folder / layout / "step_2")
                _, expected = checkpoint.load_model(self.folder / "rename/step_2")
                self.assertEqual(sorted(params), sorted(expected))
                for name in params:
                    np.testing.assert_array_equal(params[name], expected[name])

    def test_the_layouts_mark_completion_as_their_readers_expect(self) -> None:
        for layout in checkpoint.LAYOUTS:
            self.train("--steps", "2", "--layout", layout, out=layout)
        self.assertTrue((self.folder / "success/step_2/_SUCCESS").is_file())
        index = json.loads(
            (self.folder / "hf-index/step_2/model.safetensors.index.json").read_text()
        )
        files = set(index["weight_map"].values())
        self.assertEqual(len(files), 3)
        for name in files:
            self.assertTrue((self.folder / "hf-index/step_2" / name).is_file())

    def test_success_layout_goes_on_only_from_marked_checkpoints(self) -> None:
        self.train("--steps", "4", "--checkpoint-every", "2", "--layout", "success")
        (self.folder / "ckpt/step_4/_SUCCESS").unlink()
        newest = checkpoint.newest(self.folder / "ckpt", "success")
        self.assertEqual(newest.name, "step_2")

    def test_each_step_beats_the_heart(self) -> None:
        beats = self.folder / "beats"
        self.train("--steps", "5", env={"COEVAL_HEARTBEAT": str(beats)})
        lines = beats.read_text().splitlines()
        self.assertEqual([line.split()[1] for line in lines], ["1", "2", "3", "4", "5"])

    def test_bad_options_are_refused_with_the_value_and_what_is_allowed(self) -> None:
        done = self.try_train("--checkpoint-every", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--checkpoint-every is 0; must be at least 1", done.stderr)

    def test_a_corpus_without_text_is_refused(self) -> None:
        (self.corpus / "fox.txt").unlink()
        done = self.try_train("--steps", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no *.txt file", done.stderr)
