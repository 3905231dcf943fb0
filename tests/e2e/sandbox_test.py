"""scripts/slurm-sandbox itself: several side by side, and nothing left of them afterwards."""

import os
import unittest
from pathlib import Path

from sandbox import Sandbox, clean_environment

LARGE = ("--no-coevald", "--nodes", "4")
SMALL = ("--no-coevald", "--nodes", "1", "--gpus-per-node", "2", "--cpus-per-node", "8")


def processes_of(sandbox):
    """Processes that have the sandbox's folder in command line, environment or open files."""
    folder = str(sandbox.dir).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            links = [os.readlink(fd).encode() for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if folder in said or any(link.startswith(folder) for link in links):
            found.append(int(entry.name))
    return found


class SandboxTest(unittest.TestCase):
    def started(self, name, *options):
        sandbox = Sandbox(name, *options)
        self.addCleanup(sandbox.stop)
        return sandbox.start()

    def test_two_side_by_side_and_nothing_left(self):
        one, two = self.started("one", *LARGE), self.started("two", *SMALL)
        self.assertNotEqual(one.env["SLURM_CONF"], two.env["SLURM_CONF"])
        # A job that leaves its process tree and session behind must not outlive its sandbox.
        jobs = {
            box: box.sbatch("-N1", "--gpus-per-node=2", wrap="setsid -f sleep 600; sleep 600")
            for box in (one, two)
        }
        for box, job in jobs.items():
            box.wait_state(job, "RUNNING")
        self.assertEqual(one.run("sinfo", "-h", "-p", "gpu", "-o", "%D").stdout.strip(), "4")
        self.assertEqual(two.run("sinfo", "-h", "-p", "gpu", "-o", "%D").stdout.strip(), "1")

        again = one.script("up", *LARGE)
        self.assertEqual(again.returncode, 0)
        self.assertIn("is up already", again.stdout)

        self.assertTrue(processes_of(one))
        one.script("down")
        self.assertEqual(processes_of(one), [])
        self.assertEqual(two.script("status").returncode, 0, "the other one was touched")
        self.assertEqual(two.job(jobs[two])["JobState"], "RUNNING")

        self.assertEqual(one.script("down").returncode, 0)
        self.assertEqual(one.script("status").returncode, 3)
        two.script("down")
        self.assertEqual(processes_of(two), [])

    def test_one_daemon_can_be_stopped_and_started(self):
        box = self.started("daemon", *SMALL)
        self.assertEqual(box.script("stop", "slurmctld").returncode, 0)
        self.assertEqual(box.script("status").returncode, 3)
        self.assertEqual(box.script("start", "slurmctld").returncode, 0)
        unknown = box.script("stop", "postgres")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("no daemon 'postgres' here; known: munged", unknown.stderr)

    def test_a_failed_start_leaves_nothing(self):
        box = Sandbox("failing", *SMALL)
        self.addCleanup(box.stop)
        box.prepare()
        # munged, MariaDB and slurmdbd are up by then.
        broken = box.work / "slurmctld"
        broken.write_text("#!/bin/sh\necho 'no controller today' >&2\nexit 1\n")
        broken.chmod(0o755)
        done = box.script("up", *SMALL, env={"PATH": f"{box.work}:{clean_environment()['PATH']}"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("slurmctld did not start", done.stderr)
        self.assertIn("no controller today", done.stderr)
        self.assertEqual(processes_of(box), [])

    def test_a_folder_that_is_no_sandbox_is_not_removed(self):
        box = Sandbox("foreign", *SMALL)
        self.addCleanup(box.stop)
        box.prepare()
        precious = box.dir / "thesis.tex"
        precious.write_text("years of work")
        done = box.script("up", *SMALL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not empty and not a sandbox; remedy", done.stderr)
        self.assertTrue(precious.exists())


if __name__ == "__main__":
    unittest.main()
