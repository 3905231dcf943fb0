"""Processes by pid and start time, and waiting with a deadline."""

import contextlib
import os
import time
from pathlib import Path


def start_time_of(pid):
    """The kernel's start time of a process, or None. A pid alone may belong to another by now."""
    try:
        stat_line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat_line.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_alive(pid, start_time):
    """Whether the process is still the one that had this start time; None had ended at once."""
    return start_time is not None and start_time_of(pid) == start_time


def parents():
    """pid -> (parent pid, session id) of every process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                found[int(entry)] = (int(fields[1]), int(fields[3]))
    return found


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def send(pid, start_time, number):
    """Signals the process only if it is still the one that was recorded."""
    if is_alive(pid, start_time):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_until(condition, timeout_s, interval_s=0.05):
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            return None
        time.sleep(interval_s)
    return value
