#!/usr/bin/env python3
"""A separate Slurm cluster on this host, for tests: munged, slurmctld and the nodes n1, n2, n3.

    tests/slurm/cluster.py start FOLDER [--accounting] [KEY=VALUE ...]
    tests/slurm/cluster.py stop FOLDER

`start` returns when all nodes are idle, and prints the environment variables to set:
    eval "$(tests/slurm/cluster.py start /tmp/cluster)"; sinfo
KEY=VALUE are settings of slurm.conf. Settings that begin with Constrain go to cgroup.conf. All
files are in FOLDER, whose path must not have spaces. Ports are free ones. The system's own Slurm,
munge and MariaDB are neither read nor changed. Any user can start a cluster, root too. Jobs run as
that user. Needs Debian's slurmctld, slurmd, slurm-client and munge. --accounting also needs
slurmdbd, slurm-wlm-mysql-plugin, mariadb-server-core and mariadb-client-core.

Nodes have 4 CPUs, 8,000 MB and 2 fake GPUs. Partitions:
    main      the default; jobs are requeued when `high` preempts them
    cancel    the same, but preempted jobs are cancelled
    grace     the same as main, but preempted jobs have a minute to end by themselves
    high      preempts the others
    short     at most one minute
    closed    starts nothing
"""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # waiting

from configuration import NODES, user_name, write_configuration  # noqa: E402
from host_processes import is_running, processes, program_of  # noqa: E402
from waiting import wait_until  # noqa: E402

DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd")
SOCKET_PATH_MAX = 107
STOP_S = 120


class Cluster:
    """The processes and files of a cluster in a folder. Environment variables mark the daemons and
    the processes that slurmd starts, so their ids need not be stored."""

    def __init__(self, folder, node_prefix=()):
        """`node_prefix` is put before the command that starts a node's slurmd."""
        self.folder = Path(folder).resolve()
        self.node_prefix = node_prefix
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, accounting=False, **settings):
        if " " in str(self.folder):
            raise OSError(f"Slurm cannot read paths with spaces: {self.folder}")
        if len(f"{self.folder}/spool-n1/n1_123456.4294967291") > SOCKET_PATH_MAX:
            raise OSError(f"the path is too long for the sockets of jobs: {self.folder}")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} is not empty")
        if shutil.which("slurmctld", path=self._path()) is None:
            raise FileNotFoundError("slurmctld is not installed (Debian's package slurmctld)")
        write_configuration(self.folder, accounting, settings)
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
        """Kills all processes, also those of jobs. Repeats this, because they may start others
        meanwhile."""
        while processes := self.processes():
            self._end(processes, signal.SIGKILL)

    def processes(self):
        """Returns the ids of all processes of the daemons and of their jobs."""
        return self._find(lambda environment: self._is_daemon(environment) or
                          self._is_job(environment))

    def processes_of_jobs(self):
        """Returns the processes that are no daemons: those that jobs started, and slurmstepd."""
        return [pid for pid in self.processes()
                if not Path(program_of(pid)).name.startswith(DAEMONS)]  # also Debian's slurmd-wlm

    def stop_controller(self):
        self._end(self._daemons(["slurmctld"]), signal.SIGTERM)

    def start_controller(self):
        self._start_daemon("slurmctld", "slurmctld", "-D")
        self._await(["slurmctld"], lambda: self.call("scontrol", "ping").returncode == 0)

    def kill_node(self, node):
        """Kills slurmd and all processes of the node, like a loss of power."""
        self._end(self._find(lambda environment: self._is_daemon(environment, f"slurmd-{node}") or
                             (self._is_job(environment) and
                              environment.get("SLURMD_NODENAME") == node)), signal.SIGKILL)

    def start_node(self, node):
        self._start_daemon(f"slurmd-{node}", *self.node_prefix, "slurmd", "-D", "-N", node)

    def call(self, *command):
        return subprocess.run(command, capture_output=True, text=True,
                              env={**os.environ, **self.environment})

    def is_idle(self):
        states = self.call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T")
        return states.stdout.split() == ["idle"] * len(NODES)

    def queue(self):
        """Returns a line for every task that waits, runs or ends."""
        queue = self.call("squeue", "--noheader", "--array", "--format=%i %T %r")
        if queue.returncode != 0:
            raise ChildProcessError(queue.stderr)
        return queue.stdout.splitlines()

    @staticmethod
    def wait_until(what, condition, pause=0.1):
        return wait_until(what, condition, pause_s=pause)

    def log(self):
        """Returns the last log lines of each daemon."""
        return "".join(
            f"--- {file.name}\n{''.join(file.read_text(errors='replace').splitlines(True)[-8:])}"
            for file in sorted(self.folder.glob("*.log")))

    def _start_accounting(self):
        data, server = self.folder / "mariadb", self.folder / "mariadb.socket"
        storage = ["--no-defaults", f"--user={user_name()}", f"--datadir={data}",
                   "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M",
                   "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
                   f"--tmpdir={self.folder}"]  # a server deletes other files in its folder
        made = self.call("mariadb-install-db", *storage, "--skip-test-db",
                         "--auth-root-authentication-method=normal")
        if made.returncode != 0:
            raise ChildProcessError(f"mariadb-install-db: {made.stdout}{made.stderr}")
        self._start_daemon("mariadbd", "mariadbd", *storage, f"--socket={server}",
                           f"--pid-file={self.folder}/mariadb.pid", "--skip-networking")
        self._await(["mariadbd"], lambda: self.call(
            "mariadb", "--no-defaults", "--user=root", f"--socket={server}",
            "--execute=").returncode == 0)
        self._start_daemon("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(server))
        self._await(["slurmdbd"], lambda: self.call(
            "sacctmgr", "--immediate", "add", "cluster", "test").returncode == 0)

    def _start_daemon(self, name, *command, **environment):
        """Starts a daemon as a child of init. Its output goes to NAME.out.log."""
        with open(self.folder / f"{name}.out.log", "ab") as output:
            subprocess.run(["setsid", "--fork", *command], stdin=subprocess.DEVNULL, stdout=output,
                           stderr=output, cwd=self.folder, check=True,
                           env={"PATH": self._path(), **self.environment, **environment,
                                "FSDP_TEST_CLUSTER": str(self.folder), "FSDP_TEST_DAEMON": name})

    def _await(self, daemons, is_ready):
        """Waits until the started daemons are ready."""
        def is_over():
            for daemon in daemons:
                if not self._daemons([daemon]):
                    raise ChildProcessError(f"{daemon} ended")
            return is_ready()

        self.wait_until(f"{', '.join(daemons)} are ready", is_over, pause=0.05)

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
        """Sends the signal, and kills the processes that have not ended in time."""
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
