"""Starting the daemons of a sandbox, each awaited before the next, and the accounts."""

import pwd
import socket
from pathlib import Path

from slurm_sandbox.box import START_TIMEOUT_S, SandboxError
from slurm_sandbox.process import wait_until

# In the order in which they can be made: a QOS names those it preempts.
QOS_LINES = (
    ("eval", "priority=100"),
    ("metric,precursor", "priority=300"),
    ("debug", "priority=500"),
    ("sft,mllm", "priority=600 preempt=eval"),
    ("pretrain", "priority=1000 preempt=eval"),
)


def connects(family, address):
    def ready():
        with socket.socket(family) as probe:
            return probe.connect_ex(address) == 0

    return ready


def start_munged(box):
    listening = box.path("run/munge.sock")
    box.spawn(
        "munged",
        [
            "munged",
            "--foreground",
            f"--socket={listening}",
            f"--key-file={box.path('etc/munge.key')}",
            f"--pid-file={box.path('run/munged.pid')}",
            f"--seed-file={box.path('run/munged.seed')}",
            # Our folder may lie below one that others may write; the key is ours all the same.
            "--force",
            "--num-threads=4",
        ],
    )
    box.await_daemon("munged", connects(socket.AF_UNIX, str(listening)))


def start_mariadbd(box):
    data = box.path("state/mariadb")
    if not data.exists():
        made = box.run(
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={data}",
            "--user=root",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )
        if made.returncode:
            raise SandboxError(f"mariadb-install-db failed: {made.stderr.strip()[-500:]}")
    listening = box.path("run/mariadb.sock")
    # Durability is of no use to a database that ends with its sandbox; start-up time is.
    box.spawn(
        "mariadbd",
        [
            "mariadbd",
            "--no-defaults",
            f"--datadir={data}",
            "--user=root",
            f"--socket={listening}",
            f"--pid-file={box.path('run/mariadbd.pid')}",
            "--skip-networking",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",
            "--innodb-fast-shutdown=2",
            "--key-buffer-size=1M",
        ],
    )
    box.await_daemon("mariadbd", connects(socket.AF_UNIX, str(listening)))


def start_slurmdbd(box):
    box.spawn("slurmdbd", ["slurmdbd", "-D"])
    box.await_daemon("slurmdbd", connects(socket.AF_INET, ("127.0.0.1", box.record["port"] + 1)))


def start_slurmctld(box):
    box.spawn("slurmctld", ["slurmctld", "-D"])
    box.await_daemon("slurmctld", lambda: "UP" in box.run("scontrol", "ping").stdout)


def start_slurmd(box, node):
    box.spawn(f"slurmd-{node}", ["slurmd", "-D", "-N", node])


def start_coevald(box):
    """coevald as its unit file would start it. The evaluator is a user's daemon: not here."""
    listening = box.path("run/coevald.sock")
    argv = [
        box.record["coevald"],
        "--policy",
        box.path("etc/policy.yaml"),
        "--socket",
        listening,
        "--state-dir",
        box.path("state/coevald"),
        "--munge-socket",
        box.path("run/munge.sock"),
    ]
    if box.options["listen"]:
        argv += ["--listen", box.options["listen"]]
    box.spawn("coevald", argv)
    box.await_daemon("coevald", connects(socket.AF_UNIX, str(listening)))


def start_daemon(box, name):
    if name.startswith("slurmd-"):
        return start_slurmd(box, name.removeprefix("slurmd-"))
    starters = {
        "munged": start_munged,
        "mariadbd": start_mariadbd,
        "slurmdbd": start_slurmdbd,
        "slurmctld": start_slurmctld,
        "coevald": start_coevald,
    }
    return starters[name](box)


def add_accounts(box):
    """One cluster, one account, a QOS a role, and the users' associations.

    slurmdbd takes a third of a second for a line, so there are few. No GraceTime: Slurm looks only
    every 30 s whether it is over. A preempted job has KillWait seconds between SIGTERM and SIGKILL
    all the same, in which a worker gives its work back.
    """
    every_qos = ",".join(["normal", *(names for names, _ in QOS_LINES)])
    users = box.options["users"]
    sacctmgr(box, "add cluster coeval", *(f"add qos {names} {how}" for names, how in QOS_LINES))
    lines = [
        f"add account llm description=llm organization=coeval qos={every_qos}",
        f"add user {','.join(users)} account=llm qos={every_qos} defaultqos=normal",
    ]
    if "root" in users:
        # root comes with an association to the account root, which would stay its default.
        lines.append("modify user root set defaultaccount=llm")
    if user_exists("coeval"):
        lines.append("add user coeval account=llm adminlevel=operator")
    said = sacctmgr(box, *lines)
    listed = box.run("sacctmgr", "-nP", "list", "assoc", "format=user").stdout.split()
    missing = [user for user in users if user not in listed]
    if missing:
        raise SandboxError(f"sacctmgr gave no association to {','.join(missing)}: {said[-800:]}")


def sacctmgr(box, *lines):
    """One process for several lines; it knows the QOS that there were when it first looked."""
    done = box.run("sacctmgr", "-i", "-Q", input="\n".join(lines) + "\n")
    return done.stdout + done.stderr


def user_exists(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def find_coevald(options):
    build = Path(options["build_dir"])
    for place in ("bin/coevald", "scheduler/coevald", "scheduler/daemon/coevald"):
        if options["coevald"] and (build / place).is_file():
            return str(build / place)
    return None


def nodes_are_idle(box):
    lines = box.run("sinfo", "-h", "-p", "gpu", "-N", "-o", "%t").stdout.split()
    return len(lines) == box.options["nodes"] and set(lines) == {"idle"}


def start_all(box):
    start_munged(box)
    start_mariadbd(box)
    start_slurmdbd(box)
    add_accounts(box)
    start_slurmctld(box)
    for node in range(1, box.options["nodes"] + 1):
        start_slurmd(box, f"n{node}")
    if not wait_until(lambda: nodes_are_idle(box), START_TIMEOUT_S + box.options["nodes"], 0.2):
        states = box.run("sinfo", "-N", "-o", "%N %t %E").stdout
        raise SandboxError(f"not all nodes became idle; logs in {box.path('log')}:\n{states}")
    if box.record["coevald"]:
        start_coevald(box)
