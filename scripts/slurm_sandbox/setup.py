"""The set-up files of a sandbox, as an administrator would write them."""

import contextlib
import os
import random
import secrets
import shutil
import socket
import stat
import sys
from pathlib import Path

from slurm_sandbox.box import MEMORY_MB, REPO, SandboxError, other_cpus

LEND_QOS = "eval,metric,precursor"


def free_ports(count):
    """A block of free ports below the range that the kernel gives to clients."""
    for _ in range(200):
        base = random.randrange(15000, 32000 - count)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    probe = stack.enter_context(socket.socket())
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return base
    raise SandboxError(
        f"no block of {count} free ports between 15000 and 32000; remedy: end other sandboxes"
    )


def make_gpus(box):
    """Device nodes that are /dev/null by another name; without mknod GPUs are only counted."""
    nodes, gpus = box.options["nodes"], box.options["gpus_per_node"]
    lines = []
    for node in range(1, nodes + 1) if gpus else ():
        for gpu in range(gpus):
            try:
                os.mknod(box.path(f"dev/n{node}-gpu{gpu}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            except OSError as error:
                print(
                    f"slurm-sandbox: mknod: {error.strerror}; GPUs are counted but have no device "
                    "(no CUDA_VISIBLE_DEVICES in jobs)",
                    file=sys.stderr,
                )
                return f"Name=gpu Type=a100 Count={gpus}\n"
        lines.append(
            f"NodeName=n{node} Name=gpu Type=a100 "
            f"File={box.path('dev')}/n{node}-gpu[0-{gpus - 1}]\n"
        )
    return "".join(lines)


def slurm_conf(box):
    o, p = box.options, box.record["port"]
    nodes, gpus, cpus = o["nodes"], o["gpus_per_node"], o["cpus_per_node"]
    sockets = 2 if cpus % 2 == 0 else 1
    lent_cpus, lent_mb = cpus // 4, MEMORY_MB // 4
    names = f"n[1-{nodes}]" if nodes > 1 else "n1"
    ports = f"[{p + 2}-{p + 1 + nodes}]" if nodes > 1 else p + 2
    gres = "GresTypes=gpu\nAccountingStorageTRES=gres/gpu\n" if gpus else ""
    node_gres = f" Gres=gpu:a100:{gpus}" if gpus else ""
    affinity = "task/none"
    if o["reserve_cpu"] is not None:
        affinity = f"task/affinity\nTaskPluginParam=none\nTaskProlog={box.path('etc/task_prolog')}"
    submit = "JobSubmitPlugins=lua\n" if o["plugin"] else ""
    return f"""# Written by scripts/slurm-sandbox; configs/slurm/ has the parts for a real site.
ClusterName=coeval
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its old credential has expired, two minutes by default.
AuthInfo=socket={box.path("run/munge.sock")},cred_expire=5
MailProg=/bin/true
SlurmctldPort={p}
SlurmdPort={p + 2}
StateSaveLocation={box.path("state/slurmctld")}
SlurmdSpoolDir={box.path("spool")}/%n
SlurmctldPidFile={box.path("run/slurmctld.pid")}
SlurmdPidFile={box.path("run")}/slurmd-%n.pid
SlurmctldLogFile={box.path("log/slurmctld.log")}
SlurmdLogFile={box.path("log")}/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
DebugFlags=NO_CONF_HASH
PlugStackConfig={box.path("etc/plugstack.conf")}
{submit}ProctrackType=proctrack/linuxproc
TaskPlugin={affinity}
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldTimeout=60
SlurmdTimeout=60
MessageTimeout=30
KillWait=5
MinJobAge=900
MaxJobCount=20000
MaxArraySize=1001
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_continue,sched_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU={max(1, MEMORY_MB // cpus // 4)}
{gres}PreemptType=preempt/qos
PreemptMode=REQUEUE
PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityWeightQOS=10000
PriorityWeightAge=1000
PriorityWeightFairshare=1000
PrivateData=jobs,usage,users
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={p + 1}
# slurmdbd clients do not look at AuthInfo.
AccountingStoragePass={box.path("run/munge.sock")}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=10
NodeName={names} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports} \\
  CPUs={cpus} SocketsPerBoard={sockets} CoresPerSocket={cpus // sockets} ThreadsPerCore=1 \\
  RealMemory={MEMORY_MB}{node_gres}
# Training and trials use `gpu`, which never hands out a node's last quarter of CPUs and memory;
# that quarter is `lend`, open to evaluation only.
PartitionName=gpu Default=YES Nodes={names} \\
  MaxCPUsPerNode={cpus - lent_cpus} MaxMemPerNode={MEMORY_MB - lent_mb} \\
  DefaultTime=1:00:00 MaxTime=UNLIMITED
PartitionName=lend Nodes={names} \\
  MaxCPUsPerNode={max(1, lent_cpus)} MaxMemPerNode={lent_mb} AllowQos={LEND_QOS} \\
  DefaultTime=30:00 MaxTime=1-00:00:00
"""


def slurmdbd_conf(box):
    return f"""DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={box.record["port"] + 1}
AuthType=auth/munge
AuthInfo=socket={box.path("run/munge.sock")}
SlurmUser=root
LogFile={box.path("log/slurmdbd.log")}
PidFile={box.path("run/slurmdbd.pid")}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=coeval_acct
"""


def task_prolog(box):
    """Moves tasks off the reserved CPU.

    task/affinity cannot do that alone: a node here claims CPUs 0..63, so an evaluation job may be
    given "CPU 0", and binding to CPUs that the machine does not have does nothing. A step that was
    bound by --cpu-bind=map_cpu:N keeps its place; everything else is bound to the remaining CPUs.
    A task prolog is where a site would do it: it runs as the user, before the task, with its pid.
    """
    reserved = box.options["reserve_cpu"]
    return f"""#!/bin/sh
# SLURM_CPU_BIND_TYPE ends in a colon. Slurm also chooses masks by itself: they do not count.
case "$SLURM_CPU_BIND_TYPE$SLURM_CPU_BIND_LIST" in
*map_cpu:{reserved}) ;;
*) taskset -p -c {other_cpus(reserved)} "$SLURM_TASK_PID" >/dev/null ;;
esac
exit 0
"""


def wire_in(box):
    """What the README tells an administrator to do: the drop-in, job_submit.lua and its module."""
    box.path("etc/plugstack.conf").write_text(
        f"include {box.path('etc/plugstack.conf.d')}/*.conf\n"
    )
    if not box.options["plugin"]:
        return
    library = Path(box.options["build_dir"], "plugin/spank_coeval.so")
    if library.exists():
        shutil.copy2(library, box.path("lib"))
        box.path("etc/plugstack.conf.d/coeval.conf").write_text(
            f"optional {box.path('lib/spank_coeval.so')}\n"
        )
    if (module := REPO / "plugin/coeval_job_submit.lua").exists():
        shutil.copy2(module, box.path("etc"))
        shutil.copy2(REPO / "plugin/job_submit.lua", box.path("etc"))
        lent = max(1, box.options["cpus_per_node"] // 4), MEMORY_MB // 4
        box.path("etc/coeval_site.lua").write_text(site_table(box, *lent))
    else:
        box.path("etc/job_submit.lua").write_text(
            "function slurm_job_submit() return slurm.SUCCESS end\n"
            "function slurm_job_modify() return slurm.SUCCESS end\n"
        )


def site_table(box, lent_cpus, lent_mb):
    cpus = box.options["cpus_per_node"] - lent_cpus
    return f"""-- Written by scripts/slurm-sandbox; configs/slurm/coeval_site.lua explains the keys.
return {{
  default_partition = "gpu",
  partitions = {{
    gpu = {{
      cpus = {cpus}, mem_mb = {MEMORY_MB - lent_mb},
      lend = {{ cpus = {lent_cpus}, mem_mb = {lent_mb} }},
    }},
  }},
}}
"""


def write_setup(box):
    for folder in (
        "etc/plugstack.conf.d",
        "run",
        "log",
        "dev",
        "lib",
        "state/slurmctld",
        "state/coevald",
        "spool",
    ):
        box.path(folder).mkdir(parents=True, exist_ok=True)
    for node in range(1, box.options["nodes"] + 1):
        box.path(f"spool/n{node}").mkdir(exist_ok=True)
    box.path("etc/gres.conf").write_text(make_gpus(box))
    box.path("etc/slurm.conf").write_text(slurm_conf(box))
    # Empty, as proctrack/linuxproc needs no cgroup; without it Slurm looks at the machine's.
    box.path("etc/cgroup.conf").write_text("")
    database = box.path("etc/slurmdbd.conf")
    database.write_text(slurmdbd_conf(box))
    database.chmod(0o600)
    key = box.path("etc/munge.key")
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    if box.options["reserve_cpu"] is not None:
        box.path("etc/task_prolog").write_text(task_prolog(box))
        box.path("etc/task_prolog").chmod(0o755)
    wire_in(box)
