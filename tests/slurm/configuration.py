"""The files of a cluster in a folder: slurm.conf and related files."""
import contextlib
import os
import pwd
import random
import socket

NODES = ("n1", "n2", "n3")

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
# What a requeued job waits for, 120 s unless said.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmSchedLogLevel=0
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
GresTypes=gpu
# Nodes have more than the host.
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
ReturnToService=2
# A node registers anew after 7 times this long. Its slurmd may then take a job that just begins for a
# stray one, and remove its script.
SlurmdTimeout=300
SlurmctldTimeout=10
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_ports}] CPUs=4 RealMemory=8000 \
Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=n[1-3] PriorityTier=1 PreemptMode=REQUEUE MaxTime=60 Default=YES
PartitionName=cancel Nodes=n[1-3] PriorityTier=1 PreemptMode=CANCEL MaxTime=60
PartitionName=grace Nodes=n[1-3] PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 MaxTime=60
PartitionName=high Nodes=n[1-3] PriorityTier=10 PreemptMode=OFF MaxTime=60
PartitionName=short Nodes=n[1-3] PriorityTier=1 PreemptMode=REQUEUE MaxTime=1
PartitionName=closed Nodes=n[1-3] State=DOWN
"""

ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
# The socket of munge, not of MariaDB.
AccountingStoragePass={folder}/munge/socket
"""

SLURMDBD_CONF = """
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""


def user_name():
    return pwd.getpwuid(os.getuid()).pw_name


own_ports = []  # sockets whose names keep other tests from the ports (tests/parity/trainer.py)


def free_ports(count):
    """Returns the first of `count` consecutive free ports, below the ports at which ranks of jobs
    meet."""
    while True:
        first = random.randrange(10000, 19900)
        with contextlib.suppress(OSError):
            for port in range(first, first + count):
                own_ports.append(socket.socket(socket.AF_UNIX))
                own_ports[-1].bind(f"\0fsdp-test-port-{port}")
                with socket.socket() as taken:
                    taken.bind(("", port))
            return first


def write_configuration(folder, accounting, settings):
    """Writes the files of a cluster on free ports. `settings` go to slurm.conf, and Constrain... to
    cgroup.conf."""
    of_cgroups = {key: settings.pop(key) for key in list(settings) if key.startswith("Constrain")}
    for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    port = free_ports(2 + len(NODES))
    values = {"folder": folder, "host": socket.gethostname().split(".")[0],
              "user": user_name(), "node_ports": f"{port + 2}-{port + 1 + len(NODES)}"}
    text = SLURM_CONF.format(port=port, **values)
    if accounting:
        text += ACCOUNTING.format(port=port + 1, **values)
        _write(folder / "slurmdbd.conf", SLURMDBD_CONF.format(port=port + 1, **values), 0o600)
    lines = [line for line in text.splitlines() if line.split("=")[0] not in settings]
    # Settings come before nodes and partitions.
    lines[1:1] = [f"{key}={value}" for key, value in settings.items()]
    _write(folder / "slurm.conf", "\n".join(lines) + "\n")
    for gpu in ("gpu0", "gpu1"):
        (folder / gpu).symlink_to("/dev/null")  # any device file serves
    _write(folder / "gres.conf", f"Name=gpu File={folder}/gpu[0-1]\n")
    _write(folder / "cgroup.conf", "".join(f"{key}={value}\n" for key, value in of_cgroups.items()))
    (folder / "munge/key").write_bytes(os.urandom(128))
    (folder / "munge/key").chmod(0o600)


def _write(file, text, mode=0o644):
    file.write_text(text)
    file.chmod(mode)
