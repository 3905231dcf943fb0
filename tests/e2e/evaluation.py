"""An evaluator of the test's own on a sandbox, with a tiny deterministic harness."""

import hashlib
import json
import signal
import sqlite3
import struct
import subprocess
from pathlib import Path

from sandbox import BUILD, wait_for

BIN = BUILD / "bin"

# Scores are a hash of the weights and the dataset: the same for everybody who computes them.
HARNESS = r'''
import hashlib, json, os, sys, time
stage, checkpoint, dataset, out, ran = sys.argv[1:6]
seconds = float(sys.argv[6]) if len(sys.argv) > 6 else 0
if stage == "infer":
    weights = open(checkpoint + "/model.safetensors", "rb").read()
    deadline = time.time() + seconds
    while time.time() < deadline:
        time.sleep(0.05)
    answer = hashlib.sha256(weights + dataset.encode()).hexdigest()
    json.dump({"answer": answer, "from": checkpoint}, open(out + "/predictions.json", "w"))
    print("inferred", dataset)
else:
    if dataset == "broken":
        sys.exit("cannot find the grader")
    answer = json.load(open(out + "/predictions.json"))["answer"]
    value = int(answer[:8], 16) / 16**8
    json.dump({"primary": "acc", "metrics": {"acc": value}, "items": 10}, open(out + "/result.json", "w"))
# Only what came to its end is written down.
with open(ran, "a") as log:
    log.write(f"{stage} {dataset} {os.environ.get('SLURM_JOB_ID')}\n")
'''


def expected_score(checkpoint, dataset):
    weights = (Path(checkpoint) / "model.safetensors").read_bytes()
    return int(hashlib.sha256(weights + dataset.encode()).hexdigest()[:8], 16) / 16**8


def safetensors(seed):
    data = hashlib.sha256(str(seed).encode()).digest() * 64
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


def write_checkpoint(folder, seed):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors(seed))
    return folder


# A training script in bash: checkpoints are copied in under a .tmp name and renamed.
TRAIN = """
mkdir -p {ckpt}
for step in {steps}; do
  sleep {pause}
  cp -r {source}/$step {ckpt}/step_$step.tmp
  mv {ckpt}/step_$step.tmp {ckpt}/step_$step
done
sleep {pause}
"""


class Evaluation:
    def __init__(self, sandbox, name, datasets=("a", "b", "c", "d"), seconds=0.2, **config):
        self.sandbox = sandbox
        self.dir = sandbox.work / name
        self.dir.mkdir()
        self.work_dir = self.dir / "work"
        self.daemon = None
        # Beside coevald's socket: the sandbox keeps that path short enough.
        folder = Path(sandbox.env["COEVALD_SOCKET"]).parent
        self.socket = folder / f"e{len(list(sandbox.work.iterdir()))}.sock"
        (self.dir / "suites").mkdir()
        (self.dir / "harness.py").write_text(HARNESS)
        self.write_suite("tiny", datasets, seconds)
        self.write_config(**config)

    @property
    def ran(self):
        return self.dir / "ran.log"

    def write_suite(self, name, datasets, seconds):
        command = f"/usr/bin/python3, '{self.dir}/harness.py'"
        lines = "\n".join(f"  - {{name: {one}, items: 10, priors: {{inference_s: {seconds}, metric_s: 0.1}}}}" for one in datasets)
        (self.dir / "suites" / f"{name}.yaml").write_text(f"""\
suite: {name}
harness: {{name: tiny, version: "1"}}
stages:
  inference: {{argv: [{command}, infer, '{{staged}}', '{{dataset}}', '{{out}}', '{self.ran}', '{seconds}'], gpus: 1, mem: 200M}}
  metric: {{argv: [{command}, score, '-', '{{dataset}}', '{{out}}', '{self.ran}'], mem: 200M}}
datasets:
{lines}
""")  # fmt: skip

    def write_config(self, **changes):
        config = {
            "work_dir": self.work_dir, "suites": self.dir / "suites", "coevald": "unix:" + self.sandbox.env["COEVALD_SOCKET"],
            "socket": self.socket, "munge_socket": self.sandbox.env["COEVAL_MUNGE_SOCKET"], "poll_interval_s": 0.3, "follow_runs": "false", "lease_s": 5, "load_s": 1000,
            "staging": f"{{root: {self.dir}/staging/%n, reserve: 1M, mem_extra: 100M}}",
            "retries": "{attempts_max: 2, lost_max: 20, back_off_s: 0}",
            "slurm": "{trial: {qos: eval}, metric: {qos: metric}, precursor: {qos: precursor}}",
            **changes,
        }  # fmt: skip
        (self.dir / "evaluator.yaml").write_text("".join(f"{key}: {value}\n" for key, value in config.items()))

    @property
    def env(self):
        return {"COEVAL_EVALUATOR": f"unix:{self.socket}"}

    def start(self):
        with (self.dir / "evaluator.log").open("a") as log:
            self.daemon = subprocess.Popen(
                [BIN / "coeval-evaluator", "--config", self.dir / "evaluator.yaml"], env=self.sandbox.env, stdout=log, stderr=log
            )
        wait_for("the evaluator", lambda: self.coeval("status").returncode == 0 or self.daemon.poll() is not None, 30)
        if self.daemon.poll() is not None:
            raise AssertionError((self.dir / "evaluator.log").read_text())
        return self

    def stop(self, how=signal.SIGTERM):
        if self.daemon:
            self.daemon.send_signal(how)
            self.daemon.wait(timeout=30)
            self.daemon = None

    def coeval(self, *argv, user=None, timeout_s=60):
        return self.sandbox.run(BIN / "coeval", *argv, env=self.env, user=user, timeout_s=timeout_s)

    def json(self, *argv):
        done = self.coeval(*argv, "--json")
        if done.returncode:
            raise AssertionError(f"coeval {argv}: {done.stderr}")
        return json.loads(done.stdout)

    def results(self, name=""):
        return self.json("results", name)["results"] if name else self.json("results")["results"]

    def campaign(self, *checkpoints, suite="tiny"):
        return self.json("eval", "--suite", suite, *checkpoints)["campaign"]

    def wait_done(self, name, timeout_s=120):
        done = self.coeval("watch", name, "--until-done", "--interval", "0.3", "--timeout", timeout_s, timeout_s=timeout_s + 30)
        if done.returncode:
            log = (self.dir / "evaluator.log").read_text()[-3000:]
            raise AssertionError(f"watch: {done.stdout}{done.stderr}\n{self.coeval('status').stdout}\n{log}")

    def jobs(self, kind):
        return [job for job in self.json("jobs")["jobs"] if job["kind"] == kind]

    def ledger(self, sql):
        with sqlite3.connect(f"file:{self.work_dir}/ledger.db?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()
