#!/usr/bin/python3
"""The demo: one training alone, the same training with coeval evaluating its checkpoints, and what came of it.

Run by scripts/demo, which installs and builds first.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
BIN = REPO / "build" / "bin"
FOLDER = REPO / "build" / "demo"
RUN = "r7"
TRAINING_TIMEOUT_S = 1800
EVALUATION_TIMEOUT_S = 900
# The trainer is single-threaded and has this CPU to itself, through Slurm's task/affinity.
TRAINER_CPU = 0


class DemoError(Exception):
    """What went wrong, fit to show."""


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def run(*argv: object, **options: object) -> str:
    """A command's output; its complaint when it fails."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise DemoError(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Cluster:
    """The sandbox, and the environment in which Slurm's and coeval's commands reach it."""

    def __init__(self) -> None:
        self.dir = FOLDER / "sandbox"
        self.environment = dict(os.environ)
        self.reserve = ["--reserve-cpu", str(TRAINER_CPU)] if len(os.sched_getaffinity(0)) > 1 else []

    def up(self) -> None:
        run(REPO / "scripts/slurm-sandbox", "up", "--dir", self.dir, *self.reserve)
        shell = run(REPO / "scripts/slurm-sandbox", "env", "--dir", self.dir)
        done = run("bash", "-c", 'eval "$1"; env -0', "bash", shell)
        self.environment = dict(entry.split("=", 1) for entry in done.split("\0") if "=" in entry)
        # Beside coevald's socket: the sandbox keeps that path short enough for a Unix socket.
        self.socket = Path(self.environment["COEVALD_SOCKET"]).with_name("evaluator.sock")
        self.environment["COEVAL_EVALUATOR"] = f"unix:{self.socket}"
        self.environment["PATH"] = f"{BIN}:{self.environment['PATH']}"
        if self.reserve:  # The evaluator and our own commands leave the trainer its CPU, too.
            os.sched_setaffinity(0, os.sched_getaffinity(0) - {TRAINER_CPU})

    def down(self) -> None:
        subprocess.run([REPO / "scripts/slurm-sandbox", "down", "--dir", self.dir], capture_output=True)

    def run(self, *argv: object) -> str:
        return run(*argv, env=self.environment)

    def json(self, *argv: object) -> dict:
        return json.loads(self.run(BIN / "coeval", *argv, "--json"))


def write_files(cluster: Cluster, options: argparse.Namespace) -> None:
    """The suite, the evaluator's configuration and the training script, as a user would have them."""
    for folder in ("suites", "evaluator", "alone", "ckpt"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    suite = run(REPO / "scripts/demo-model/suite.py", "session").replace("suite: demo-session", "suite: demo")
    (FOLDER / "suites/demo.yaml").write_text(suite)
    (FOLDER / "evaluator.yaml").write_text(f"""\
# A team's evaluator on the demo's cluster; configs/evaluator.yaml explains the keys.
work_dir: {FOLDER}/evaluator
socket: {cluster.socket}
suites: {FOLDER}/suites
coevald: unix:{cluster.environment["COEVALD_SOCKET"]}
munge_socket: {cluster.environment["COEVAL_MUNGE_SOCKET"]}
staging: {{root: {FOLDER}/staging/%n, reserve: 64M, mem_extra: 256M}}
slurm:
  trial: {{qos: eval}}
  metric: {{qos: metric}}
  precursor: {{qos: precursor}}
caps: {{trials_max: 1, metric_jobs_max: 1}}  # The nodes are many, the machine's real CPUs are few.
load_s: 3
""")
    srun = ["srun", f"--cpu-bind=map_cpu:{TRAINER_CPU}"] if cluster.reserve else ["srun"]
    for name in ("alone", "ckpt"):
        (FOLDER / f"train-{name}.sh").write_text(f"""\
#!/bin/bash
#SBATCH --job-name=train-{name} --nodelist=n1 --gres=gpu:8 --cpus-per-task=48
{" ".join(srun)} {REPO}/scripts/demo-model/train.py --out {FOLDER}/{name} --steps {options.steps} \\
  --checkpoint-every {options.checkpoint_every} --report {FOLDER}/{name}.json
""")


def submit(cluster: Cluster, name: str, *options: str) -> str:
    return cluster.run("sbatch", "--parsable", f"--output={FOLDER}/train-{name}.log", *options, FOLDER / f"train-{name}.sh").strip()


def follow_training(cluster: Cluster, job: str, name: str) -> dict:
    """Waits for the training's end, printing its checkpoints; its report."""
    printed = 0
    log = FOLDER / f"train-{name}.log"
    deadline = time.monotonic() + TRAINING_TIMEOUT_S
    while time.monotonic() < deadline:
        lines = log.read_text().splitlines() if log.exists() else []
        for line in lines[printed:]:
            if line.startswith("checkpoint"):
                print(f"  {Path(line.split()[1]).name} written", flush=True)
        printed = len(lines)
        state = cluster.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()
        if state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            break
        time.sleep(0.5)
    report = FOLDER / f"{name}.json"
    if not report.exists():
        tail = "\n".join(log.read_text().splitlines()[-5:]) if log.exists() else "no log"
        raise DemoError(f"training job {job} ended without a report; its log ends:\n{tail}")
    return json.loads(report.read_text())


@contextlib.contextmanager
def evaluator(cluster: Cluster):
    """coeval-evaluator as a user's daemon."""
    log = (FOLDER / "evaluator.log").open("w")
    daemon = subprocess.Popen([BIN / "coeval-evaluator", "--config", FOLDER / "evaluator.yaml"], env=cluster.environment,
                              stdout=log, stderr=log)  # fmt: skip
    try:
        for _ in range(100):
            if cluster.socket.exists() or daemon.poll() is not None:
                break
            time.sleep(0.1)
        if daemon.poll() is not None:
            raise DemoError(f"coeval-evaluator ended: {(FOLDER / 'evaluator.log').read_text().strip()}")
        yield daemon
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)
        log.close()


def watch(cluster: Cluster) -> None:
    """`coeval watch` until every checkpoint has its scores."""
    watching = subprocess.run([BIN / "coeval", "watch", RUN, "--until-done", "--timeout", str(EVALUATION_TIMEOUT_S), "--interval", "0.5"],
                              env=cluster.environment, stdout=None)  # fmt: skip
    if watching.returncode != 0:
        raise DemoError(f"evaluation did not finish; see {FOLDER}/evaluator.log and {FOLDER}/evaluator/logs")


def show(cluster: Cluster, alone_s: float, beside_s: float) -> dict:
    """Prints what happened and returns it as the JSON of --json."""
    results = cluster.json("results", RUN)
    say("Scores over training steps (coeval results)")
    print(cluster.run(BIN / "coeval", "results", RUN), end="")
    say("What ran where (coeval jobs)")
    print(cluster.run(BIN / "coeval", "jobs"), end="")
    delays = [one["feedback_delay_s"] for one in results["results"]]
    if not delays:
        raise DemoError(f"no results; see {FOLDER}/evaluator.log")
    checkpoints = {one["fingerprint"] for one in results["results"]}
    datasets = {one["dataset"] for one in results["results"]}
    say("Feedback delay: from checkpoint complete to score known")
    print(f"median {statistics.median(delays):.1f} s, longest {max(delays):.1f} s, over {len(delays)} scores "
          f"({len(checkpoints)} checkpoints x {len(datasets)} datasets)")  # fmt: skip
    lent = [job for job in cluster.json("jobs")["jobs"] if job["kind"] == "metric" and job["node"] == "n1"]
    print(f"{len(lent)} metric jobs ran on CPUs that the training job lent on its own node n1")
    say("What evaluation cost training")
    print(f"training alone {alone_s:.1f} s, with evaluation beside it {beside_s:.1f} s: {100 * (beside_s / alone_s - 1):+.1f} %")
    return {
        "run": RUN, "checkpoints": len(checkpoints), "datasets": len(datasets), "results": len(delays),
        "feedback_delay_s": {"p50": round(statistics.median(delays), 3), "max": round(max(delays), 3)},
        "pretrain_s": round(beside_s, 3), "pretrain_alone_s": round(alone_s, 3),
    }  # fmt: skip


def demo(cluster: Cluster, options: argparse.Namespace) -> None:
    say("A private Slurm cluster: 4 nodes x 8 GPUs (device files), slurmctld, slurmdbd, munge, coevald")
    run("rm", "-rf", *(FOLDER / name for name in ("suites", "evaluator", "alone", "ckpt", "staging", "alone.json", "ckpt.json",
                                                  "train-alone.log", "train-ckpt.log")))  # fmt: skip
    cluster.up()
    write_files(cluster, options)
    print(cluster.run("sinfo"), end="")

    say(f"Training alone, for comparison: {options.steps} steps on node n1")
    alone = follow_training(cluster, submit(cluster, "alone", "--llm-role=other"), "alone")
    print(f"  {alone['train_s']:.1f} s")

    say("The same training with coeval")
    words = ["--llm-role=pretrain", f"--llm-run={RUN}", f"--llm-checkpoints={FOLDER}/ckpt", "--llm-suite=demo",
             "--llm-lend=cpus=16,mem=200G"]  # fmt: skip
    print(f"$ sbatch {' '.join(words)} train-ckpt.sh", flush=True)
    with evaluator(cluster):
        job = submit(cluster, "ckpt", *words)
        print(f"Submitted batch job {job}\n\n$ coeval watch {RUN} --until-done", flush=True)
        watch(cluster)
        beside = follow_training(cluster, job, "ckpt")
        summary = show(cluster, alone["train_s"], beside["train_s"])
        if options.json:
            Path(options.json).write_text(json.dumps(summary) + "\n")
        if options.keep:
            say("The cluster stays up until you press Enter. In another shell:")
            print(f'eval "$({REPO}/scripts/slurm-sandbox env --dir {cluster.dir})"')
            print(f"export PATH={BIN}:$PATH COEVAL_EVALUATOR={cluster.environment['COEVAL_EVALUATOR']}")
            print("coeval status; coeval results; coeval explain JOBID; coeval doctor; squeue", flush=True)
            with contextlib.suppress(EOFError):
                input()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write what happened as JSON")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end until Enter is pressed")
    parser.add_argument("--steps", type=int, default=540, help="training steps (default 540)")
    parser.add_argument("--checkpoint-every", type=int, default=90, help="steps between checkpoints (default 90)")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cluster = Cluster()
    try:
        demo(cluster, options)
    except DemoError as fault:
        print(f"scripts/demo: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
