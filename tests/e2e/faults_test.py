"""Kill anything, restart anything: results are those of an undisturbed campaign, each exactly once."""

import os
import signal
import unittest
from pathlib import Path

from evaluation import Evaluation, expected_score, write_checkpoint
from sandbox import Sandbox, wait_for

SANDBOX = Sandbox("faults")
DATASETS = tuple("abcdef")


def setUpModule():
    SANDBOX.start()


def tearDownModule():
    SANDBOX.stop()


def worker_pids(evaluation):
    """The workers of this evaluation, known by their command lines."""
    mark = str(evaluation.dir / "work/evaluator.url").encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if words and words[0].endswith(b"coeval-worker") and mark in words and b"inference" in words:
            found.append(int(folder.name))
    return found


class FaultTest(unittest.TestCase):
    def evaluate(self, seconds, checkpoints=2, **config):
        evaluation = Evaluation(SANDBOX, self.id().rsplit(".", 1)[-1], DATASETS, seconds, **config).start()
        self.addCleanup(SANDBOX.cancel_all)
        self.addCleanup(evaluation.stop)
        self.checkpoints = [write_checkpoint(evaluation.dir / "ckpt" / f"step_{n}", n) for n in range(1, checkpoints + 1)]
        return evaluation

    def wait_results(self, evaluation, count):
        wait_for(f"{count} results", lambda: len(evaluation.results()) >= count, 90)

    def check_as_if_undisturbed(self, evaluation):
        results = evaluation.results()
        self.assertEqual(sorted((one["checkpoint"], one["dataset"]) for one in results),
                         sorted((str(path), dataset) for path in self.checkpoints for dataset in DATASETS))  # fmt: skip
        for one in results:
            self.assertAlmostEqual(one["value"], expected_score(one["checkpoint"], one["dataset"]), places=12)
        # The ledger has each result once, and accepted each piece of work once.
        accepted = evaluation.ledger("SELECT work, count(*) FROM attempts WHERE outcome = 'done' GROUP BY work")
        self.assertEqual({count for _, count in accepted}, {1})
        self.assertEqual(len(accepted), 2 * len(results))
        self.assertFalse(evaluation.ledger("SELECT 1 FROM work WHERE state != 'done'"))

    def test_kill_9_of_the_evaluator(self):
        evaluation = self.evaluate(0.5)
        evaluation.campaign(*self.checkpoints)
        for results in (1, 4, 8):
            self.wait_results(evaluation, results)
            evaluation.stop(signal.SIGKILL)
            evaluation.start()
        evaluation.wait_done("c-1")
        self.check_as_if_undisturbed(evaluation)
        # Its jobs were adopted, not submitted again.
        self.assertLessEqual(len(evaluation.jobs("trial")), 4)

    def test_kill_9_of_a_worker(self):
        evaluation = self.evaluate(1)
        evaluation.campaign(*self.checkpoints)
        self.wait_results(evaluation, 2)
        killed = worker_pids(evaluation)
        self.assertTrue(killed)
        os.kill(killed[0], signal.SIGKILL)
        evaluation.wait_done("c-1")
        self.check_as_if_undisturbed(evaluation)

    def test_kill_9_of_coevald(self):
        evaluation = self.evaluate(0.5)
        pid = SANDBOX.daemon_pid("coevald")
        evaluation.campaign(*self.checkpoints)
        self.wait_results(evaluation, 1)
        os.kill(pid, signal.SIGKILL)
        wait_for("the evaluator to notice", lambda: evaluation.json("status")["quota"]["source"] == "fallback", 30)
        evaluation.wait_done("c-1")
        self.check_as_if_undisturbed(evaluation)
        self.assertEqual(SANDBOX.script("start", "coevald").returncode, 0)
        wait_for("coevald to be back", lambda: evaluation.json("status")["scheduler"] == "connected", 30)
        log = (evaluation.dir / "evaluator.log").read_text()
        self.assertEqual((log.count("coevald is away"), log.count("coevald is back")), (1, 1), "one line each way")

    def test_slurmctld_restarts_under_us(self):
        evaluation = self.evaluate(0.5)
        evaluation.campaign(*self.checkpoints)
        self.wait_results(evaluation, 1)
        self.assertEqual(SANDBOX.script("stop", "slurmctld").returncode, 0)
        wait_for("the evaluator to notice", lambda: evaluation.json("status")["slurm"].startswith("down"), 60)
        self.assertEqual(SANDBOX.script("start", "slurmctld").returncode, 0)
        evaluation.wait_done("c-1")
        self.check_as_if_undisturbed(evaluation)

    def test_pretraining_preempts_trials(self):
        evaluation = self.evaluate(2)
        evaluation.campaign(*self.checkpoints)
        self.wait_results(evaluation, 1)
        job = SANDBOX.sbatch("--llm-role=pretrain", "--nodes=4", "--gres=gpu:8", "--cpus-per-task=40", wrap="sleep 8")
        SANDBOX.wait_state(job, "RUNNING", "COMPLETED")
        SANDBOX.wait_end(job)
        evaluation.wait_done("c-1")
        self.check_as_if_undisturbed(evaluation)
        self.assertTrue([one for one in evaluation.jobs("trial") if "PREEMPTED" in one["state"] or "CANCELLED" in one["state"]])
        # What had ended was not run again.
        ran = [line.rsplit(" ", 1)[0] for line in evaluation.ran.read_text().splitlines()]
        self.assertEqual(len([line for line in ran if line.startswith("infer")]), 12)


if __name__ == "__main__":
    unittest.main(verbosity=2)
