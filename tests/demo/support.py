"""What the tests of the demo's model share: a folder, a small corpus, a tiny model.

Run them as CMakeLists.txt does, with scripts/demo-model in PYTHONPATH.
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

MODEL_DIR = Path(__file__).resolve().parents[2] / "scripts" / "demo-model"

TINY = '{"width": 16, "layers": 1, "heads": 4, "hidden": 16, "context": 32, "hash_rows": 64}'
_CORPUS = "Share and enjoy. The quick brown fox jumps over the lazy dog.\n" * 40


class FolderTest(unittest.TestCase):
    """A test with a folder of its own and a small corpus in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.corpus = self.folder / "corpus"
        self.corpus.mkdir()
        (self.corpus / "fox.txt").write_text(_CORPUS)

    def train(self, *arguments: str, out: str = "ckpt", env: dict | None = None) -> None:
        """Runs the trainer on the small corpus; fails the test when it fails."""
        done = self.try_train(*arguments, out=out, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def try_train(
        self, *arguments: str, out: str = "ckpt", env: dict | None = None
    ) -> subprocess.CompletedProcess:
        command = [str(MODEL_DIR / "train.py"), "--out", str(self.folder / out)]
        command += ["--corpus", str(self.corpus), "--batch", "4", "--config", TINY, *arguments]
        return run(command, env)


def run(command: list[str], env: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | (env or {}),
        check=False,
    )
