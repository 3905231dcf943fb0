"""The demo, shortened: what it prints and the JSON it writes come from what happened."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from sandbox import REPO, clean_environment


class DemoTest(unittest.TestCase):
    def test_a_short_demo(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = Path(folder) / "demo.json"
            done = subprocess.run(
                [REPO / "scripts/demo-model/demo.py", "--steps", "40", "--checkpoint-every", "20", "--json", summary],
                env=clean_environment(), capture_output=True, text=True, timeout=550,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
            written = json.loads(summary.read_text())
        self.assertEqual(
            set(written),
            {"run", "checkpoints", "datasets", "results", "feedback_delay_s", "pretrain_s", "pretrain_alone_s"},
        )
        self.assertEqual(written["checkpoints"], 2)
        self.assertGreaterEqual(written["datasets"], 8)
        self.assertEqual(written["results"], written["checkpoints"] * written["datasets"])
        self.assertGreater(written["feedback_delay_s"]["max"], 0)
        for heading in ("Scores over training steps", "What ran where", "What evaluation cost training"):
            self.assertIn(heading, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
