"""Ending a sandbox: exactly what it started, and what its jobs started."""

import contextlib
import os
import shutil
import signal

from slurm_sandbox.box import MARK, SandboxError
from slurm_sandbox.process import environment_of, is_alive, parents, send, start_time_of, wait_until

STOP_TIMEOUT_S = 15


def is_stepd(box, pid):
    """slurmstepd leaves its slurmd's tree and overwrites its environment; its log stays open."""
    logs = str(box.dir / "log/slurmd-")
    with contextlib.suppress(OSError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "slurmstepd":
            descriptors = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
            return any(os.readlink(fd).startswith(logs) for fd in descriptors)
    return False


def step_processes(box):
    """Everything that our daemons and jobs started, as {pid: start time}.

    That is what has our mark, the slurmstepds of our slurmds, and all that descends from these, is
    in the session of something that does, or says in its environment that it runs on a node of this
    cluster.
    """
    mark = f"{MARK}={box.root}".encode()
    conf = f"SLURM_CONF={box.path('etc/slurm.conf')}".encode()
    tree = parents()
    ours = set()
    for pid in tree:
        environment = environment_of(pid)
        in_job = conf in environment and any(v.startswith(b"SLURMD_NODENAME=") for v in environment)
        if mark in environment or in_job or is_stepd(box, pid):
            ours.add(pid)
    recorded = {process["pid"] for process in box.record["processes"].values()}
    for _ in range(len(tree)):
        sessions = ours - recorded
        more = {
            pid for pid, (parent, session) in tree.items() if parent in ours or session in sessions
        } - ours
        if not more:
            break
        ours |= more
    ours -= {os.getpid(), *ancestors(tree)}
    return {pid: began for pid in ours if (began := start_time_of(pid)) is not None}


def ancestors(tree):
    pid, found = os.getpid(), []
    while pid in tree and pid > 1:
        found.append(pid)
        pid = tree[pid][0]
    return found


def stop_daemon(box, name, number=signal.SIGTERM):
    process = box.record["processes"].pop(name, None)
    if not process:
        return
    pid, start_time = process["pid"], process["start_time"]
    send(pid, start_time, number)
    if not wait_until(lambda: not is_alive(pid, start_time), STOP_TIMEOUT_S, 0.02):
        send(pid, start_time, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid, start_time), STOP_TIMEOUT_S, 0.02)


def any_alive(processes):
    return any(is_alive(pid, start_time) for pid, start_time in processes.items())


def down(box, quiet=False):
    names = list(box.record["processes"])
    # coevald first, so that it sees no failing cluster. The others may go at once: nothing of
    # their state is wanted again.
    if "coevald" in names:
        stop_daemon(box, "coevald")
    for _ in range(10):
        left = step_processes(box)
        for name, process in box.record["processes"].items():
            if box.running(name):
                left[process["pid"]] = process["start_time"]
        if not left:
            break
        for pid, start_time in left.items():
            send(pid, start_time, signal.SIGKILL)
        wait_until(lambda killed=left: not any_alive(killed), 2, 0.02)
    else:
        raise SandboxError(
            f"processes {sorted(left)} did not end; remedy: look at them and end them by hand"
        )
    box.record["processes"] = {}
    if box.record_file.exists():
        box.save()
        tidy(box)
    if not quiet:
        print(
            f"slurm-sandbox: {box.dir} is down" if names else f"slurm-sandbox: {box.dir} was not up"
        )
    return 0


def tidy(box):
    """Drops the database and the sockets; logs and set-up files stay to be looked at."""
    for folder in ("state/mariadb", "run", "dev"):
        shutil.rmtree(box.dir / folder, ignore_errors=True)
    if box.root != box.dir and box.root.parent.name.startswith("coeval-sandbox."):
        with contextlib.suppress(OSError):
            box.root.unlink()
            box.root.parent.rmdir()
