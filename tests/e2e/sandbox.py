"""A private Slurm for end-to-end tests: scripts/slurm-sandbox with what tests ask of it.

    SANDBOX = Sandbox("plugin")

    def setUpModule():
        SANDBOX.start()

    def tearDownModule():
        SANDBOX.stop()

Start one for a file of tests, not for each: it takes about ten seconds. Nothing waits without a
deadline, and no test asserts how long something took.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COEVAL_BUILD_DIR", REPO / "build")).resolve()
SCRIPT = REPO / "scripts/slurm-sandbox"
# The second user: one that every Debian has, as a test must not add users to the machine.
OTHER_USER = "nobody"
OTHER_UID = 65534
# Variables of ours or Slurm's that the person who runs the tests may have set.
FOREIGN = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "COEVAL")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "DEADLINE"}


def wait_for(what, condition, timeout_s=60, interval_s=0.1):
    """Polls until condition() is true and returns its value; fails with `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s for: {what}")
        time.sleep(interval_s)
    return value


def others_may_enter(folder):
    return all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents])


def clean_environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    kept["PATH"] = kept.get("PATH", "") + ":/usr/sbin:/sbin"
    return kept


class Sandbox:
    """Owns one cluster and its folder, below the build folder if the second user can get there."""

    def __init__(self, name, *up_options):
        self.name = name
        self.up_options = up_options
        self.dir = None
        self.env = {}

    def prepare(self):
        """Makes the folders: one for the sandbox, one for output that both users can write."""
        base = BUILD / "e2e"
        base.mkdir(parents=True, exist_ok=True)
        parent = base if others_may_enter(base) else None
        self.dir = Path(tempfile.mkdtemp(prefix=f"{self.name}.", dir=parent))
        self.dir.chmod(0o755)
        self.work = self.dir.with_name(self.dir.name + ".work")
        self.work.mkdir()
        self.work.chmod(0o1777)

    def start(self):
        self.prepare()
        done = self.script("up", "--build-dir", BUILD, *self.up_options)
        if done.returncode:
            # The logs of a cluster that did not start are worth keeping.
            raise AssertionError(f"slurm-sandbox up: {done.stderr}")
        self.env = self.read_environment()
        return self

    def script(self, *arguments, env=None):
        return subprocess.run(
            [SCRIPT, *map(str, arguments), "--dir", self.dir],
            env={**clean_environment(), **(env or {})},
            capture_output=True,
            text=True,
            timeout=180,
        )

    def read_environment(self):
        exports = self.script("env").stdout
        shown = subprocess.run(
            ["bash", "-c", 'eval "$1" && env -0', "bash", exports],
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(line.split("=", 1) for line in shown.stdout.split("\0") if line)

    def stop(self):
        if not self.dir:
            return
        self.script("down")
        if not os.environ.get("COEVAL_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)
            shutil.rmtree(self.work, ignore_errors=True)

    def run(self, *argv, user=None, env=None, cwd=None, timeout_s=60, check=False, text_in=None):
        """Runs a command on the cluster, as the second user if asked, in a folder all may write."""
        argv = [str(part) for part in argv]
        if user == OTHER_USER:
            ids = [f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups"]
            argv = ["setpriv", *ids, *argv]
        return subprocess.run(
            argv,
            env={**self.env, **(env or {})},
            cwd=cwd or self.work,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=check,
            input=text_in,
        )

    def sbatch(self, *options, wrap="true", user=None, env=None):
        """Submits a job and returns its id; fails the test if it was refused."""
        done = self.run("sbatch", "--parsable", *options, "--wrap", wrap, user=user, env=env)
        if done.returncode:
            raise AssertionError(f"sbatch {options}: {done.stderr}")
        return done.stdout.strip()

    def job(self, job_id):
        """What `scontrol show job` says, as a dictionary."""
        shown = self.run("scontrol", "-o", "show", "job", job_id).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def output(self, job_id):
        with contextlib.suppress(OSError):
            return (self.work / f"slurm-{job_id}.out").read_text()
        return ""

    def wait_state(self, job_id, *states, timeout_s=60):
        def reached():
            fields = self.job(job_id)
            return fields if fields.get("JobState") in states else None

        return wait_for(f"job {job_id} in {' or '.join(states)}", reached, timeout_s)

    def wait_end(self, job_id, timeout_s=60):
        return self.wait_state(job_id, *ENDED, timeout_s=timeout_s)

    def daemon_pid(self, name):
        return json.loads((self.dir / "sandbox.json").read_text())["processes"][name]["pid"]

    def cancel_all(self):
        """Ends all jobs and waits until the nodes are free, for the next test."""
        self.run("scancel", "--me", "--signal=KILL", "--full")
        self.run("scancel", "--user", OTHER_USER)
        self.run("scancel", "--me")
        wait_for("an empty cluster", lambda: not self.run("squeue", "-h").stdout.strip())

    def node_states(self):
        return set(self.run("sinfo", "-h", "-p", "gpu", "-N", "-o", "%T").stdout.split())
