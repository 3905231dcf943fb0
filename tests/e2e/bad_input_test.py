"""Bad input and broken surroundings: one clear line, a non-zero exit, nothing lost and nothing half done."""

import os
import signal
import stat
import subprocess
import unittest

from evaluation import BIN, Evaluation, write_checkpoint
from sandbox import REPO, Sandbox, wait_for

SANDBOX = Sandbox("bad_input")
POLICY = REPO / "configs/policies/eval-first.yaml"


def setUpModule():
    SANDBOX.start()


def tearDownModule():
    SANDBOX.stop()


class BadInputTest(unittest.TestCase):
    def evaluation(self, **config):
        evaluation = Evaluation(SANDBOX, self.id().rsplit(".", 1)[-1], ("a",), **config)
        self.addCleanup(SANDBOX.cancel_all)
        self.addCleanup(evaluation.stop)
        return evaluation

    def refuses(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, f"one line: {done.stderr}")
        for text in texts:
            self.assertIn(text, done.stderr)

    def run_evaluator(self, evaluation, *flags):
        return SANDBOX.run(BIN / "coeval-evaluator", *(flags or ("--config", evaluation.dir / "evaluator.yaml")))

    def test_people_hear_what_is_wrong(self):
        evaluation = self.evaluation().start()
        checkpoint = write_checkpoint(evaluation.dir / "step_1", 1)
        self.refuses(evaluation.coeval("eval", "--suite", "tinny", checkpoint), "unknown suite 'tinny'; known: tiny")
        self.refuses(evaluation.coeval("eval", "--suite", "tiny", "/none/step_1"), "there is no checkpoint folder at /none/step_1")
        self.refuses(evaluation.coeval("cancel", "c-99"), "there is no campaign 'c-99'")
        self.refuses(evaluation.coeval("cancel", "nonesuch"), "there is no run 'nonesuch'")
        self.refuses(evaluation.coeval("status", "nonesuch"), "there is no run or campaign 'nonesuch'")
        self.refuses(evaluation.coeval("explain", "999999"), "Slurm lists no job 999999")
        self.assertEqual(evaluation.json("jobs")["jobs"], [])

    def test_hostile_bodies_are_refused_and_nothing_falls_over(self):
        evaluation = self.evaluation().start()
        socket = evaluation.env["COEVAL_EVALUATOR"].removeprefix("unix:")
        bodies = ["", "[]", "{", '{"stage": 5}', '{"stage": "inference", "fingerprint": []}', '{"item_id": "x"}',
                  '{"item_id": 1, "token": 1, "outcome": {}}', '{"item_id": 1, "token": 1, "outcome": "done", "seconds": "long"}',
                  '{"suites": 1, "checkpoints": {}}', '{"suites": ["tiny"], "checkpoints": ["relative"], "name": 7}',
                  '{"node": 1}', '{"campaign": null}', '{"run": ["r"]}', '{"job_id": 17}', "\x00\xff" * 100]  # fmt: skip
        for path in ("work/lease", "work/renew", "work/finish", "work/return", "staging", "campaigns", "cancel"):
            for body in bodies:
                done = SANDBOX.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket,
                                   "--data-binary", "@-", f"http://localhost/v1/{path}", text_in=body)  # fmt: skip
                self.assertIn(done.stdout, ("400", "404", "409"), f"{path} {body}")
        self.assertEqual(evaluation.coeval("status").returncode, 0)

    def test_a_suite_with_a_typo_is_named_and_the_old_one_stays(self):
        evaluation = self.evaluation()
        suite = evaluation.dir / "suites/tiny.yaml"
        good = suite.read_text()
        suite.write_text(good.replace("{staged}", "{stagd}"))
        done = self.run_evaluator(evaluation, "--check-config", evaluation.dir / "evaluator.yaml")
        self.refuses(done, f"{suite}:4: unknown placeholder {{stagd}}")
        suite.write_text(good)
        evaluation.start()
        suite.write_text(good.replace("harness:", "harnes:"))
        log = evaluation.dir / "evaluator.log"
        wait_for("the refusal", lambda: "unknown key 'harnes'; did you mean 'harness'?" in log.read_text(), 30)
        evaluation.wait_done(evaluation.campaign(write_checkpoint(evaluation.dir / "step_1", 1)))
        self.assertEqual(len(evaluation.results()), 1)

    def test_two_daemons_never_share(self):
        evaluation = self.evaluation().start()
        self.refuses(self.run_evaluator(evaluation), "another coeval-evaluator uses this ledger")
        socket = SANDBOX.env["COEVALD_SOCKET"]
        state = evaluation.dir / "state"
        second = SANDBOX.run(BIN / "coevald", "--policy", POLICY, "--socket", socket, "--state-dir", state)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"another daemon is listening on {socket}", second.stderr)
        self.assertEqual(evaluation.coeval("policy", "show").returncode, 0, "the first one goes on")

    def test_an_unreadable_ledger(self):
        evaluation = self.evaluation()
        (evaluation.dir / "work").mkdir()
        ledger = evaluation.dir / "work/ledger.db"
        ledger.write_bytes(b"no database at all, but long enough to be taken for one " * 20)
        self.refuses(self.run_evaluator(evaluation), str(ledger), "restore it from a copy")

    def test_a_bad_policy_is_refused_and_the_running_one_stays(self):
        evaluation = self.evaluation()
        bad = evaluation.dir / "bad.yaml"
        bad.write_text(POLICY.read_text().replace("gpu_quota: 16", "gpu_quota: many"))
        done = SANDBOX.run(BIN / "coevald", "--check-config", bad)
        self.refuses(done, f"{bad}:", "gpu_quota is many; must be 0..1000000")
        self.assertEqual(SANDBOX.run(BIN / "coevald", "--check-config", POLICY).returncode, 0)
        running = SANDBOX.dir / "etc/policy.yaml"
        good = running.read_text()
        try:
            running.write_text(bad.read_text())
            self.refuses(evaluation.coeval("policy", "reload"), "gpu_quota is many")
            self.assertEqual(evaluation.json("policy", "show")["policy"]["eval"]["gpu_quota"], 16)
            job = SANDBOX.sbatch("--llm-role=eval", "--begin=now+1hour")
            running.write_text(good.replace("gpu_quota: 16", "gpu_quota: 12").replace("eval: {weight: 1000", "eval: {weight: 1230"))
            os.kill(SANDBOX.daemon_pid("coevald"), signal.SIGHUP)
            wait_for("SIGHUP to take effect", lambda: evaluation.json("policy", "show")["policy"]["eval"]["gpu_quota"] == 12, 30)
            # The new weight reaches the waiting job in Slurm, and the journal says why.
            journal = SANDBOX.dir / "state/coevald/journal.jsonl"
            steered = lambda: [line for line in journal.read_text().splitlines() if f'"job_id":{job}' in line and ",1230]" in line]
            line = wait_for("the job's SiteFactor", lambda: journal.exists() and steered(), 30)[0]
            self.assertIn('"slurm":"ok"', line)
            self.assertIn("weight of role eval", line)
            self.assertEqual(evaluation.json("explain", job)["site_factor"]["value"], 1230)
        finally:
            running.write_text(good)
            evaluation.coeval("policy", "reload")

    def test_no_room_for_staging_falls_back_and_says_so(self):
        disk = SANDBOX.work / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True)
        if mounted.returncode:
            self.skipTest("no tmpfs can be mounted here: " + mounted.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        evaluation = self.evaluation(staging=f"{{root: {disk}/%n, reserve: 4K, mem_extra: 100M}}").start()
        checkpoint = write_checkpoint(evaluation.dir / "step_1", 1)
        (checkpoint / "extra.bin").write_bytes(os.urandom(64 << 10))
        evaluation.wait_done(evaluation.campaign(checkpoint))
        self.assertEqual(len(evaluation.results()), 1)
        log = evaluation.dir / "evaluator.log"
        wait_for("the report", lambda: "staging failed" in log.read_text() and "must stay free" in log.read_text(), 30)
        self.assertFalse([path for path in disk.glob("*/*") if stat.S_ISDIR(path.stat().st_mode)], "nothing half copied")


if __name__ == "__main__":
    unittest.main(verbosity=2)
