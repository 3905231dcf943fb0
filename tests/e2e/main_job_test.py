"""The main job: a pretraining run's checkpoints are noticed, evaluated in batches beside it, and scored."""

import json
import shutil
import unittest

from evaluation import TRAIN, Evaluation, expected_score, safetensors, write_checkpoint
from sandbox import OTHER_USER, Sandbox, wait_for

SANDBOX = Sandbox("main_job")


def setUpModule():
    SANDBOX.start()


def tearDownModule():
    SANDBOX.stop()


class EvaluatedTest(unittest.TestCase):
    def evaluate(self, *args, **config):
        evaluation = Evaluation(SANDBOX, self.id().rsplit(".", 1)[-1], *args, **config).start()
        self.addCleanup(SANDBOX.cancel_all)
        self.addCleanup(evaluation.stop)
        return evaluation


class MainJobTest(EvaluatedTest):
    def test_checkpoints_of_a_run_are_scored_beside_it(self):
        evaluation = self.evaluate(follow_runs="true")
        source, ckpt = evaluation.dir / "source", evaluation.dir / "ckpt"
        for step in (10, 20, 30):
            write_checkpoint(source / str(step), step)
        job = SANDBOX.sbatch(
            "--llm-role=pretrain", "--llm-run=r7", f"--llm-checkpoints={ckpt}", "--llm-suite=tiny",
            "--llm-lend=cpus=16,mem=200G", "--nodelist=n1", "--gres=gpu:8", "--cpus-per-task=48", "--mem=700G",
            wrap=TRAIN.format(ckpt=ckpt, source=source, steps="10 20 30", pause=4),
        )  # fmt: skip
        wait_for("three checkpoints entered", lambda: len(evaluation.json("status")["runs"][0]["checkpoints"]) == 3
                 if evaluation.json("status")["runs"] else False, 90)  # fmt: skip
        SANDBOX.wait_state(job, "COMPLETED")
        evaluation.wait_done("r7")

        results = evaluation.results("r7")
        self.assertEqual(sorted((one["step"], one["dataset"]) for one in results),
                         sorted((step, dataset) for step in (10, 20, 30) for dataset in "abcd"))  # fmt: skip
        for one in results:
            self.assertAlmostEqual(one["value"], expected_score(one["checkpoint"], one["dataset"]), places=12)
            self.assertGreaterEqual(one["feedback_delay_s"], 0)
        self.assertEqual(len(evaluation.ran.read_text().split("\n")) - 1, 24, "12 inferences and 12 metrics, each once")
        # In batches: one trial a checkpoint, not one a dataset.
        self.assertEqual([job["items_done"] for job in evaluation.jobs("trial")], [4, 4, 4])
        # Metrics ran on what the training job lent on its own node.
        self.assertIn("n1", {job["node"] for job in evaluation.jobs("metric")})
        lent = SANDBOX.job(evaluation.jobs("metric")[0]["job_id"])
        self.assertEqual(lent["Partition"], "lend")
        # Weights came from the copy on the node at least once the copy was there.
        self.assertTrue(evaluation.jobs("precursor"))
        metrics = SANDBOX.run("curl", "-s", (evaluation.dir / "work/evaluator.url").read_text().strip() + "/metrics").stdout
        self.assertIn("coeval_feedback_delay_seconds_count 12", metrics)
        self.assertIn("step", evaluation.coeval("results", "r7").stdout.lower())
        self.assertEqual(evaluation.coeval("results", "r7", "--csv").stdout.count("\n"), 13)

    def test_staged_copies_are_used_and_removed(self):
        evaluation = self.evaluate(seconds=2)
        checkpoint = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        evaluation.wait_done(evaluation.campaign(checkpoint))
        used = [json.loads(path.read_text())["from"] for path in evaluation.dir.glob("work/items/**/inference-*/predictions.json")]
        self.assertTrue(any("/staging/" in path for path in used), used)
        wait_for("the copy's removal", lambda: not list(evaluation.dir.glob("staging/*/*")), 30)

    def test_the_same_weights_are_not_evaluated_twice(self):
        evaluation = self.evaluate()
        first = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        evaluation.wait_done(evaluation.campaign(first))
        second = shutil.copytree(first, evaluation.dir / "copy_of_step_1")
        answer = evaluation.json("eval", "--suite", "tiny", second)
        self.assertEqual((answer["items"], answer["new"]), (4, 0))
        self.assertEqual(len(evaluation.results(answer["campaign"])), 4)

    def test_a_half_written_checkpoint_waits_and_says_for_what(self):
        evaluation = self.evaluate()
        checkpoint = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        (checkpoint / "model.safetensors").write_bytes(safetensors(1)[:-5])
        done = evaluation.coeval("eval", "--suite", "tiny", checkpoint)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is not complete; waits for: model.safetensors has", done.stdout)
        wait_for("status to say so", lambda: "waits for: model.safetensors has" in evaluation.coeval("status").stdout, 30)
        self.assertFalse(evaluation.jobs("trial"))
        (checkpoint / "model.safetensors").write_bytes(safetensors(1))
        evaluation.wait_done("c-1")
        self.assertEqual(len(evaluation.results("c-1")), 4)

    def test_only_the_metric_runs_again_and_its_failure_is_shown(self):
        evaluation = self.evaluate(("a", "broken"))
        checkpoint = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        evaluation.wait_done(evaluation.campaign(checkpoint))
        shown = evaluation.coeval("results", "c-1").stdout
        self.assertIn("failed: step 1 tiny/broken, metric after 2 attempts", shown)
        self.assertIn("last log line: cannot find the grader", shown)
        self.assertIn("its predictions are in " + str(evaluation.dir), shown)
        self.assertEqual(evaluation.ran.read_text().count("infer broken"), 1)
        self.assertEqual(len(evaluation.results("c-1")), 1)

    def test_cancel_stops_a_campaign(self):
        evaluation = self.evaluate(seconds=60)
        checkpoint = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        campaign = evaluation.campaign(checkpoint)
        wait_for("a running trial", lambda: any(job["state"] == "RUNNING" for job in evaluation.jobs("trial")))
        self.assertIn("Cancelled c-1", evaluation.coeval("cancel", campaign).stdout)
        wait_for("the trial's end", lambda: all(job["state"].startswith(("COMPLETED", "CANCELLED")) for job in evaluation.jobs("trial")))
        self.assertFalse(evaluation.results())


class OtherUserTest(EvaluatedTest):
    def test_another_user_may_not_see_or_cancel(self):
        evaluation = self.evaluate()
        checkpoint = write_checkpoint(evaluation.dir / "ckpt" / "step_1", 1)
        evaluation.wait_done(evaluation.campaign(checkpoint))
        for command in (["status"], ["results"], ["jobs"], ["cancel", "c-1"], ["eval", "--suite", "tiny", checkpoint]):
            done = evaluation.coeval(*command, user=OTHER_USER)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("user nobody may not do that", done.stderr)

    def test_the_scheduler_shows_each_user_their_own(self):
        evaluation = self.evaluate()
        job = SANDBOX.sbatch("--llm-role=pretrain", "--llm-run=mine", "--llm-checkpoints=/tmp/none", wrap="sleep 60")
        wait_for("coevald to see it", lambda: evaluation.coeval("explain", job).returncode == 0)
        self.assertIn("pretrain, by tag", evaluation.coeval("explain", job).stdout)
        refused = evaluation.coeval("explain", job, user=OTHER_USER)
        self.assertEqual((refused.returncode, refused.stderr.strip()), (1, f"coeval: job {job} is not yours"))
        reload = evaluation.coeval("policy", "reload", user=OTHER_USER)
        self.assertIn("is no operator", reload.stderr)
        self.assertEqual(evaluation.coeval("policy", "reload").returncode, 0)

    def test_without_credentials_nothing_is_answered(self):
        evaluation = self.evaluate()
        url = (evaluation.dir / "work/evaluator.url").read_text().strip()
        for path, status in (("/healthz", "200"), ("/v1/status", "401"), ("/v1/work/lease", "405"), ("/nothing", "404")):
            done = SANDBOX.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url + path)
            self.assertEqual(done.stdout, status, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
