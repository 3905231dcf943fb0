"""--llm-* options on a real Slurm: what users may say, what it does, what it never breaks."""

import json
import os
import unittest
from pathlib import Path

from sandbox import OTHER_USER, Sandbox, wait_for

SANDBOX = Sandbox("plugin", "--no-coevald")


def setUpModule():
    SANDBOX.start()


def tearDownModule():
    SANDBOX.stop()


def tag_of(job_id):
    text = SANDBOX.job(job_id).get("AdminComment")
    return json.loads(text) if text else None


class SlurmTest(unittest.TestCase):
    def tearDown(self):
        SANDBOX.cancel_all()
        self.assertLessEqual(
            SANDBOX.node_states(),
            {"idle", "mixed", "allocated", "completing", "planned"},
            "a node was drained",
        )


class OptionsTest(SlurmTest):
    def test_command_line_reaches_admin_comment(self):
        job = SANDBOX.sbatch(
            "--llm-role=pretrain",
            "--llm-run=r7",
            "--llm-checkpoints=/ckpt/r7",
            "--llm-suite=core,extra",
            "--llm-lend=cpus=16,mem=200G",
            "--llm-deadline=10",
            "--llm-recover=3",
        )
        self.assertEqual(
            SANDBOX.job(job)["AdminComment"],
            '{"coeval":1,"role":"pretrain","run":"r7","checkpoints":"/ckpt/r7","suite":"core,extra",'
            '"lend":{"cpus":16,"mem_mb":204800},"deadline_s":600,"recover":3}',
        )

    def test_environment_does_the_same(self):
        job = SANDBOX.sbatch(env={"COEVAL_ROLE": "eval", "COEVAL_CHECKPOINT": "/c/step_1"})
        self.assertEqual(tag_of(job), {"coeval": 1, "role": "eval", "checkpoint": "/c/step_1"})

    def test_command_line_wins_over_environment(self):
        job = SANDBOX.sbatch("--llm-run=mine", env={"COEVAL_RUN": "theirs", "COEVAL_ROLE": "debug"})
        self.assertEqual(tag_of(job), {"coeval": 1, "role": "debug", "run": "mine"})

    def test_an_empty_variable_is_none(self):
        self.assertIsNone(tag_of(SANDBOX.sbatch(env={"COEVAL_ROLE": ""})))

    def test_sbatch_lines(self):
        script = "#!/bin/bash\n#SBATCH --llm-role=sft\n#SBATCH --llm-run r8\ntrue\n"
        done = SANDBOX.run("sbatch", "--parsable", "--llm-run=r9", text_in=script)
        self.assertEqual(tag_of(done.stdout.strip()), {"coeval": 1, "role": "sft", "run": "r9"})

    def test_salloc_and_srun(self):
        show = 'scontrol -o show job "$SLURM_JOB_ID"'
        for program, option, env in [
            ("salloc", ["--llm-role=debug"], {}),
            ("srun", ["--llm-role=debug"], {}),
            ("salloc", [], {"COEVAL_ROLE": "debug"}),
            ("srun", [], {"COEVAL_ROLE": "debug"}),
        ]:
            with self.subTest(program=program, env=env):
                done = SANDBOX.run(program, *option, "bash", "-c", show, env=env)
                self.assertIn('AdminComment={"coeval":1,"role":"debug"}', done.stdout)

    def test_values_are_in_the_jobs_environment(self):
        job = SANDBOX.sbatch(
            "--llm-role=eval",
            wrap='echo "$COEVAL_ROLE $COEVAL_RUN"; srun printenv COEVAL_RUN',
            env={"COEVAL_RUN": "r7"},
        )
        SANDBOX.wait_end(job)
        self.assertEqual(SANDBOX.output(job).split(), ["eval", "r7", "r7"])

    def test_a_job_submitted_from_a_job_inherits_no_role(self):
        inner = "sbatch --parsable --wrap true; COEVAL_ROLE=debug sbatch --parsable --wrap true"
        job = SANDBOX.sbatch("--llm-role=pretrain", "--llm-run=r7", wrap=inner)
        SANDBOX.wait_end(job)
        plain, own = SANDBOX.output(job).split()
        self.assertIsNone(tag_of(plain))
        self.assertEqual(tag_of(own), {"coeval": 1, "role": "debug"})

    def test_a_plain_job_gets_no_comment(self):
        job = SANDBOX.sbatch()
        self.assertNotIn("AdminComment", SANDBOX.job(job))

    def test_help_names_us(self):
        shown = SANDBOX.run("sbatch", "--help").stdout
        self.assertIn("--llm-role=role", shown)
        self.assertIn("[coeval] workload type", shown)


class RefusalTest(SlurmTest):
    def refused(self, *options, env=None, program="sbatch"):
        tail = ["--wrap", "true"] if program == "sbatch" else ["true"]
        done = SANDBOX.run(program, *options, *tail, env=env)
        self.assertNotEqual(done.returncode, 0)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_wrong_values(self):
        for option, value, remedy in [
            ("--llm-role", "training", "use pretrain, sft, mllm"),
            ("--llm-run", "a/b", "use 1 to 64 of"),
            ("--llm-checkpoints", "ckpt", "write the whole path"),
            ("--llm-suite", "a,,b", "use name"),
            ("--llm-lend", "cpus=0,mem=1G", "must be 1..65535"),
            ("--llm-deadline", "soon", "write MM"),
            ("--llm-recover", "yes", "use off, on or a count"),
        ]:
            with self.subTest(option=option):
                line = self.refused(f"{option}={value}")
                self.assertIn(f"{option}={value}: ", line)
                self.assertIn(remedy, line)

    def test_impossible_combinations(self):
        self.assertIn("--llm-lend", self.refused("--llm-role=eval", "--llm-lend=cpus=1,mem=1G"))
        self.assertIn("add --llm-run", self.refused("--llm-checkpoints=/c"))
        self.assertIn("--llm-recover", self.refused("--llm-role=debug", "--llm-recover=on"))
        self.assertIn("--llm-checkpoint=/c", self.refused("--llm-role=sft", "--llm-checkpoint=/c"))

    def test_a_wrong_variable_is_refused_by_its_name(self):
        for program in ("sbatch", "salloc", "srun"):
            with self.subTest(program=program):
                line = self.refused(env={"COEVAL_DEADLINE": "1:2:3:4"}, program=program)
                self.assertIn("COEVAL_DEADLINE=1:2:3:4: no Slurm time", line)

    def test_slurmctld_checks_what_a_client_without_the_plugin_says(self):
        """More than a node lends is known to job_submit only, so that is what refuses it."""
        done = SANDBOX.run("sbatch", "--llm-lend=cpus=17,mem=1G", "--wrap", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("lends at most 16 CPUs and 250000 MiB", done.stderr)


class AdminCommentTest(SlurmTest):
    def test_a_user_cannot_change_the_tag(self):
        job = SANDBOX.sbatch("-H", "--llm-role=eval", "-o", "/dev/null", user=OTHER_USER)
        forged = 'AdminComment={"coeval":1,"role":"pretrain"}'
        done = SANDBOX.run("scontrol", "update", f"jobid={job}", forged, user=OTHER_USER)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(tag_of(job), {"coeval": 1, "role": "eval"})

    def test_requeueing_keeps_the_tag(self):
        job = SANDBOX.sbatch("--llm-role=eval", wrap="sleep 60")
        SANDBOX.wait_state(job, "RUNNING")
        SANDBOX.run("scontrol", "requeue", job, check=True)
        self.assertEqual(tag_of(job), {"coeval": 1, "role": "eval"})


class RoleTest(SlurmTest):
    def test_roles_give_qos_and_site_factor(self):
        whole = ["-N4", "--ntasks-per-node=48"]
        SANDBOX.wait_state(SANDBOX.sbatch("--qos=normal", *whole, wrap="sleep 300"), "RUNNING")
        site_of = {
            "pretrain": 1000,
            "sft": 500,
            "mllm": 500,
            "debug": 300,
            "metric": 200,
            "precursor": 200,
            "eval": 100,
        }
        jobs = {role: SANDBOX.sbatch(f"--llm-role={role}", *whole) for role in site_of}
        for role, job in jobs.items():
            self.assertEqual(SANDBOX.job(job)["QOS"], role)

        def priorities():
            shown = SANDBOX.run("sprio", "-h", "-o", "%i %S").stdout.split()
            return (
                dict(zip(shown[::2], shown[1::2], strict=True))
                if len(shown) == 2 * len(jobs)
                else None
            )

        # SITE is a term of the multifactor priority: age, fair share and QOS stay in force.
        shown = wait_for("sprio to list the jobs", priorities)
        self.assertEqual({role: int(shown[job]) for role, job in jobs.items()}, site_of)

    def test_a_users_choice_of_qos_stays(self):
        job = SANDBOX.sbatch("-H", "--llm-role=pretrain", "--qos=debug")
        self.assertEqual(SANDBOX.job(job)["QOS"], "debug")

    def test_pretraining_takes_gpus_from_trials(self):
        trial = SANDBOX.sbatch(
            "--llm-role=eval", "--gpus-per-node=8", "--requeue", wrap="sleep 300"
        )
        SANDBOX.wait_state(trial, "RUNNING")
        training = SANDBOX.sbatch("--llm-role=pretrain", "-N4", "--gpus-per-node=8", wrap="sleep 5")
        SANDBOX.wait_state(training, "RUNNING", "COMPLETED")
        self.assertEqual(SANDBOX.job(trial)["Restarts"], "1")
        SANDBOX.wait_state(trial, "RUNNING")


class LendTest(SlurmTest):
    def test_an_exclusive_job_leaves_what_only_evaluation_may_use(self):
        training = SANDBOX.sbatch(
            "--llm-role=pretrain",
            "--llm-run=r7",
            "--llm-lend=cpus=16,mem=200G",
            "--exclusive",
            "-N4",
            "--gpus-per-node=8",
            wrap="sleep 300",
        )
        fields = SANDBOX.wait_state(training, "RUNNING")
        self.assertEqual(fields["NumCPUs"], "192")
        self.assertIn("mem=3000000M", fields["TRES"])
        # All that is lent, on every node, goes to metric jobs.
        metric = SANDBOX.sbatch(
            "-p",
            "lend",
            "--llm-role=metric",
            "-N4",
            "-c16",
            "--ntasks-per-node=1",
            "--mem=250000",
            wrap="sleep 300",
        )
        SANDBOX.wait_state(metric, "RUNNING")
        # Nobody else gets in: not by the training partition, not by the lending one.
        other = SANDBOX.sbatch("--llm-role=debug")
        unnamed = SANDBOX.sbatch("-p", "lend")
        SANDBOX.run("scancel", metric, check=True)
        SANDBOX.wait_end(metric)
        wait_for("a scheduler's pass", lambda: SANDBOX.job(other)["Reason"] != "None")
        wait_for("a scheduler's pass", lambda: SANDBOX.job(unnamed)["Reason"] != "None")
        self.assertEqual(SANDBOX.job(other)["JobState"], "PENDING")
        self.assertEqual(SANDBOX.job(unnamed)["JobState"], "PENDING")
        # With everything free, what has no QOS for it still may not use the lending partition.
        SANDBOX.run("scancel", training, check=True)
        self.assertEqual(SANDBOX.wait_end(other)["JobState"], "COMPLETED")
        wait_for("the reason", lambda: "QOS" in SANDBOX.job(unnamed)["Reason"])
        self.assertEqual(SANDBOX.job(unnamed)["JobState"], "PENDING")


class HarmlessTest(SlurmTest):
    """All of coeval's daemons are down in this file; here the plugin itself is broken too."""

    def with_drop_in(self, text):
        file = Path(SANDBOX.env["SLURM_CONF"]).parent / "plugstack.conf.d/coeval.conf"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(text)

    def runs_to_the_end(self):
        job = SANDBOX.sbatch("-N2", wrap="srun true")
        self.assertEqual(SANDBOX.wait_end(job)["JobState"], "COMPLETED")

    def test_with_all_daemons_down(self):
        job = SANDBOX.sbatch("--llm-role=pretrain", "--llm-run=r7", wrap="srun true")
        self.assertEqual(SANDBOX.wait_end(job)["JobState"], "COMPLETED")

    def test_plugin_file_missing(self):
        self.with_drop_in("optional /nonexistent/spank_coeval.so\n")
        self.runs_to_the_end()

    def test_plugin_file_broken(self):
        broken = SANDBOX.work / "broken.so"
        broken.write_text("no library\n")
        broken.chmod(0o755)
        self.with_drop_in(f"optional {broken}\n")
        self.runs_to_the_end()

    def test_fault_in_the_site_table(self):
        etc = Path(SANDBOX.env["SLURM_CONF"]).parent
        site, script = etc / "coeval_site.lua", etc / "job_submit.lua"
        before, second = site.read_text(), int(script.stat().st_mtime)

        def change(text, mtime):
            site.write_text(text)
            # slurmctld reads the script again when its modification time, in seconds, is later.
            os.utime(script, (mtime, mtime))

        self.addCleanup(change, before, second + 2)
        change("return { partitions = 7, roles = 8, default_partition = 'gpu' }\n", second + 1)
        self.runs_to_the_end()
        log = Path(SANDBOX.env["COEVAL_SANDBOX"], "log/slurmctld.log").read_text()
        self.assertIn("coeval: submit failed", log)


if __name__ == "__main__":
    unittest.main()
