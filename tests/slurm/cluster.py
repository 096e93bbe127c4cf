#!/usr/bin/env python3
"""A Slurm cluster of its own on this host, for tests: munged, slurmctld and the nodes n1, n2, n3.

    tests/slurm/cluster.py start FOLDER [--accounting] [KEY=VALUE ...]
    tests/slurm/cluster.py stop FOLDER

`start` returns when all nodes are idle and prints what to put into the environment:
    eval "$(tests/slurm/cluster.py start /tmp/cluster)"; sinfo
KEY=VALUE are settings of slurm.conf. All files are in FOLDER, whose path may not have spaces; the
ports are free ones. Nothing of a system's own Slurm, munge or MariaDB is read or touched. Runs as
any user, root too; jobs run as that user. Needs Debian's slurmctld, slurmd, slurm-client and munge;
with --accounting, slurmdbd, slurm-wlm-mysql-plugin, mariadb-server-core and mariadb-client-core.

Nodes have 4 CPUs, 8,000 MB and 2 GPUs without anything behind them. Partitions:
    main      the default; jobs are requeued when `high` preempts them
    cancel    the same, but preempted jobs are cancelled
    high      preempts the others
    short     at most one minute
    closed    starts nothing
"""
import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

NODES = ("n1", "n2", "n3")
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd")
START_S = 60
STOP_S = 30

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
SlurmdTimeout=10
SlurmctldTimeout=10
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_ports}] CPUs=4 RealMemory=8000 \
Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=n[1-3] PriorityTier=1 PreemptMode=REQUEUE MaxTime=60 Default=YES
PartitionName=cancel Nodes=n[1-3] PriorityTier=1 PreemptMode=CANCEL MaxTime=60
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


def free_ports(count):
    """Neighbours, below those that the kernel gives to connections."""
    while True:
        first = random.randrange(10000, 32000)
        try:
            for port in range(first, first + count):
                with socket.socket() as taken:
                    taken.bind(("", port))
            return first
        except OSError:
            continue


class Cluster:
    """The processes and files of a cluster in a folder. Daemons, and what slurmd starts, are known
    by the environment they were started with, so that nobody needs to remember their ids."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, accounting=False, **settings):
        if " " in str(self.folder):
            raise OSError(f"Slurm cannot read paths with spaces: {self.folder}")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} is not empty")
        if shutil.which("slurmctld", path=self._path()) is None:
            raise FileNotFoundError("slurmctld is not installed (Debian's package slurmctld)")
        self._write_configuration(accounting, settings)
        try:
            self._start_daemon("munged", "munged", "--foreground", "--force",
                               *(f"--{name}-file={self.folder}/munge/{name}"
                                 for name in ("key", "pid", "log", "seed")),
                               f"--socket={self.folder}/munge/socket", "--num-threads=2")
            self._await(["munged"], (self.folder / "munge/socket").exists)
            if accounting:
                self._start_accounting()
            self.start_controller()
            for node in NODES:
                self.start_node(node)
            self._await(["slurmctld", *map("slurmd-{}".format, NODES)], self.is_idle)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Kills all processes, those of jobs too; again, as they may start others meanwhile."""
        while processes := self.processes():
            self._end(processes, signal.SIGKILL)

    def processes(self):
        """The ids of all processes of the daemons and of jobs that were submitted to them."""
        return self._find(lambda environment: self._is_daemon(environment) or
                          self._is_job(environment))

    def processes_of_jobs(self):
        """Those of them that are no daemon: what jobs started, and slurmstepd."""
        return [pid for pid in self.processes()
                if not Path(program_of(pid)).name.startswith(DAEMONS)]  # Debian's slurmd-wlm too

    def stop_controller(self):
        self._end(self._daemons(["slurmctld"]), signal.SIGTERM)

    def start_controller(self):
        self._start_daemon("slurmctld", "slurmctld", "-D")
        self._await(["slurmctld"], lambda: self.call("scontrol", "ping").returncode == 0)

    def kill_node(self, node):
        """As when the node loses its power: slurmd, and all that ran there, are gone."""
        self._end(self._find(lambda environment: self._is_daemon(environment, f"slurmd-{node}") or
                             (self._is_job(environment) and
                              environment.get("SLURMD_NODENAME") == node)), signal.SIGKILL)

    def start_node(self, node):
        self._start_daemon(f"slurmd-{node}", "slurmd", "-D", "-N", node)

    def call(self, *command):
        return subprocess.run(command, capture_output=True, text=True,
                              env={**os.environ, **self.environment})

    def is_idle(self):
        states = self.call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T")
        return states.stdout.split() == ["idle"] * len(NODES)

    def queue(self):
        """Every task that waits, runs or ends."""
        queue = self.call("squeue", "--noheader", "--array", "--format=%i %T %r")
        if queue.returncode != 0:
            raise ChildProcessError(queue.stderr)
        return queue.stdout.splitlines()

    @staticmethod
    def wait_until(what, condition, seconds=60, pause=0.1):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s in vain until {what}")
            time.sleep(pause)

    def log(self):
        """The last words of each daemon."""
        return "".join(
            f"--- {file.name}\n{''.join(file.read_text(errors='replace').splitlines(True)[-8:])}"
            for file in sorted(self.folder.glob("*.log")))

    def _write_configuration(self, accounting, settings):
        for folder in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        port = free_ports(2 + len(NODES))
        values = {"folder": self.folder, "host": socket.gethostname().split(".")[0],
                  "user": user_name(), "node_ports": f"{port + 2}-{port + 1 + len(NODES)}"}
        text = SLURM_CONF.format(port=port, **values)
        if accounting:
            text += ACCOUNTING.format(port=port + 1, **values)
            self._write("slurmdbd.conf", SLURMDBD_CONF.format(port=port + 1, **values))
        lines = [line for line in text.splitlines() if line.split("=")[0] not in settings]
        # Settings come before nodes and partitions.
        lines[1:1] = [f"{key}={value}" for key, value in settings.items()]
        self._write("slurm.conf", "\n".join(lines) + "\n")
        for gpu in ("gpu0", "gpu1"):
            (self.folder / gpu).symlink_to("/dev/null")  # any device
        self._write("gres.conf", f"Name=gpu File={self.folder}/gpu[0-1]\n")
        self._write("cgroup.conf", "")
        (self.folder / "munge/key").write_bytes(os.urandom(128))
        (self.folder / "munge/key").chmod(0o600)

    def _write(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)

    def _start_accounting(self):
        data, server = self.folder / "mariadb", self.folder / "mariadb.socket"
        storage = ["--no-defaults", f"--user={user_name()}", f"--datadir={data}",
                   "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M",
                   "--innodb-flush-method=nosync", "--innodb-doublewrite=0"]
        self.call("mariadb-install-db", *storage, "--skip-test-db",
                  "--auth-root-authentication-method=normal")
        self._start_daemon("mariadbd", "mariadbd", *storage, f"--socket={server}",
                           f"--pid-file={self.folder}/mariadb.pid", "--skip-networking")
        self._await(["mariadbd"], lambda: self.call(
            "mariadb", "--no-defaults", "--user=root", f"--socket={server}",
            "--execute=").returncode == 0)
        self._start_daemon("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(server))
        self._await(["slurmdbd"], lambda: self.call(
            "sacctmgr", "--immediate", "add", "cluster", "test").returncode == 0)

    def _start_daemon(self, name, *command, **environment):
        """A child of init, with the log NAME.out of what it prints."""
        with open(self.folder / f"{name}.out.log", "ab") as output:
            subprocess.run(["setsid", "--fork", *command], stdin=subprocess.DEVNULL, stdout=output,
                           stderr=output, cwd=self.folder, check=True,
                           env={"PATH": self._path(), **self.environment, **environment,
                                "FSDP_TEST_CLUSTER": str(self.folder), "FSDP_TEST_DAEMON": name})

    def _await(self, daemons, is_ready):
        """Until the daemons that were started do their work."""
        deadline = time.monotonic() + START_S
        while not is_ready():
            for daemon in daemons:
                if not self._daemons([daemon]):
                    raise ChildProcessError(f"{daemon} ended")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {START_S} s: {', '.join(daemons)}")
            time.sleep(0.05)

    def _is_daemon(self, environment, name=None):
        return (environment.get("FSDP_TEST_CLUSTER") == str(self.folder) and
                name in (None, environment.get("FSDP_TEST_DAEMON")))

    def _is_job(self, environment):
        return "SLURM_JOB_ID" in environment and (
            environment.get("SLURM_CONF") == self.environment["SLURM_CONF"])

    def _daemons(self, names):
        return self._find(lambda environment: any(self._is_daemon(environment, name)
                                                  for name in names))

    def _end(self, pids, number):
        """Sends the signal, and kills what has not ended in time."""
        deadline = time.monotonic() + STOP_S
        while pids:
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            while (pids := list(filter(is_running, pids))) and time.monotonic() < deadline:
                time.sleep(0.02)
            number = signal.SIGKILL

    @staticmethod
    def _find(condition):
        return [pid for pid, environment in processes() if condition(environment)]

    @staticmethod
    def _path():
        return os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"


def processes():
    """The id and environment of each that we may look at."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes().decode(errors="replace")
        except OSError:  # ended, or somebody else's
            continue
        yield int(process.name), dict(line.split("=", 1)
                                      for line in text.split("\0") if "=" in line)


def program_of(pid):
    """The path of what it executes; empty when it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def state_of(pid):
    """The kernel's letter for it, such as R or T; Z when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def is_running(pid):
    return state_of(pid) not in "ZX"


def main():
    match sys.argv[1:]:
        case ["start", folder, *options]:
            settings = dict(option.split("=", 1) for option in options if "=" in option)
            if unknown := [option for option in options
                           if option != "--accounting" and "=" not in option]:
                sys.exit(f"unknown option '{unknown[0]}'\n{__doc__}")
            cluster = Cluster(folder)
            try:
                cluster.start("--accounting" in options, **settings)
            except (ChildProcessError, TimeoutError) as error:
                sys.exit(f"{cluster.log()}the cluster did not start: {error}")
            except OSError as error:
                sys.exit(f"cannot start a cluster: {error}")
            for name, value in cluster.environment.items():
                print(f"export {name}={shlex.quote(value)}")
        case ["stop", folder]:
            Cluster(folder).stop()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
