"""A sandbox: its folder, the record of what was asked for and started, and its processes."""

import contextlib
import json
import os
import subprocess
from pathlib import Path

from slurm_sandbox.process import is_alive, start_time_of, wait_until

REPO = Path(__file__).resolve().parents[2]
MEMORY_MB = 1_000_000
START_TIMEOUT_S = 60
# A daemon's environment names its sandbox, which tells our processes from all others.
MARK = "COEVAL_SANDBOX_DAEMON"


class SandboxError(Exception):
    """What went wrong, with its remedy, as one line for the user."""


def last_lines(path, count=5):
    try:
        return "\n".join(Path(path).read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""


class Sandbox:
    """One folder with the set-up, the state and the record of the processes of a cluster."""

    def __init__(self, directory):
        self.dir = Path(directory).resolve()
        self.record_file = self.dir / "sandbox.json"
        self.record = {"processes": {}}
        with contextlib.suppress(OSError, ValueError):
            self.record = json.loads(self.record_file.read_text())
        self.root = Path(self.record.get("root", self.dir))

    @property
    def options(self):
        return self.record["options"]

    def save(self):
        fresh = self.record_file.with_suffix(".new")
        fresh.write_text(json.dumps(self.record, indent=1))
        fresh.replace(self.record_file)

    def path(self, *parts):
        return self.root.joinpath(*parts)

    def running(self, name):
        process = self.record["processes"].get(name)
        return bool(process) and is_alive(process["pid"], process["start_time"])

    def daemon_names(self):
        nodes = [f"slurmd-n{i}" for i in range(1, self.options["nodes"] + 1)]
        coevald = ["coevald"] if self.record.get("coevald") else []
        return ["munged", "mariadbd", "slurmdbd", "slurmctld", *nodes, *coevald]

    def environment(self):
        """What a daemon gets: nothing of the caller's, so that it starts alike everywhere."""
        return {
            "PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "TZ": os.environ.get("TZ", "UTC"),
            "SLURM_CONF": str(self.path("etc/slurm.conf")),
            # The client library's way to be told another socket than /run/mysqld/mysqld.sock.
            "MYSQL_UNIX_PORT": str(self.path("run/mariadb.sock")),
            MARK: str(self.root),
        }

    def spawn(self, name, argv):
        """Starts a daemon in the foreground of its own session: its pid is known at once."""
        argv = self.prefix() + [str(part) for part in argv]
        with open(self.path("log", f"{name}.out"), "ab") as out:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment(),
                cwd=self.path("state"),
                start_new_session=True,
            )
        self.record["processes"][name] = {
            "pid": process.pid,
            "start_time": start_time_of(process.pid),
        }
        self.save()

    def prefix(self):
        reserved = self.options["reserve_cpu"]
        return [] if reserved is None else ["taskset", "-c", other_cpus(reserved)]

    def run(self, *argv, **kwargs):
        return subprocess.run(
            [str(part) for part in argv],
            env=self.environment(),
            text=True,
            capture_output=True,
            timeout=60,
            **kwargs,
        )

    def logs_of(self, name):
        return self.path("log", f"{name}.log"), self.path("log", f"{name}.out")

    def await_daemon(self, name, ready, timeout_s=START_TIMEOUT_S):
        """Waits until the daemon is ready; a daemon that has ended is not waited for."""
        if wait_until(lambda: ready() or not self.running(name), timeout_s) and self.running(name):
            return
        said = "\n".join(filter(None, (last_lines(log) for log in self.logs_of(name))))
        raise SandboxError(f"{name} did not start; its last lines in {self.path('log')}:\n{said}")


def other_cpus(reserved):
    others = sorted(os.sched_getaffinity(0) - {reserved})
    if not others or reserved not in os.sched_getaffinity(0):
        raise SandboxError(
            f"--reserve-cpu {reserved}: needs that CPU and another one; remedy: leave it out"
        )
    return ",".join(map(str, others))
