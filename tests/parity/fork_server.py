"""Starts a program many times, but loads its libraries once (tests/fakes/fork_server.cpp).

fsdp-train takes 0.55 s of a core to start, and libtorch takes 0.5 s of that. Most tests start a few
ranks that train for 0.1 s. A forked process has the executable, arguments, variables, working
directory and standard streams of a started one. Its command line in /proc is the server's, and it
shares memory with the server.
"""

import array
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections import OrderedDict
from pathlib import Path

from waiting import LIMIT_S

library: Path | None = None  # if None, programs are started, not forked
MOST_SERVERS = 4
# Variables that programs and preloaded libraries read only after they are loaded. A new value of any
# other variable needs another server.
READ_LATE = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TMPDIR",
             "KILL_AT_CALL", "HOLD_FSYNC", "FAKE_CUDA_CAPABILITY", "FAKE_CUDA_FREE_MIB", "FAKE_CUDA_FULL_IN",
             "PYTEST_CURRENT_TEST"}


class ForkedProcess:
    """A child of this process, with the interface of subprocess.Popen."""

    def __init__(self, args: list[str], pid: int):
        self.args, self.pid = args, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and timeout is not None:
            descriptor = os.pidfd_open(self.pid)
            has_ended, _, _ = select.select([descriptor], [], [], timeout)
            os.close(descriptor)
            if not has_ended:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self._reap(0)

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Server:
    def __init__(self, program: str, environment: dict[str, str]):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        preload = f"{library} {environment.get('LD_PRELOAD', '')}".strip()
        variables = environment | {"LD_PRELOAD": preload, "FORK_SERVER": str(theirs.fileno())}
        self.process = subprocess.Popen([program], env=variables, pass_fds=[theirs.fileno()])
        theirs.close()
        self.socket.settimeout(LIMIT_S)

    def fork(self, args: list[str], variables: dict[str, str], stdin, stdout, stderr) -> ForkedProcess:
        words = [*args, "", *(f"{name}={value}" for name, value in variables.items())]
        folder = os.open(".", os.O_PATH)
        descriptors = array.array("i", [stdin.fileno(), stdout.fileno(), stderr.fileno(), folder])
        try:
            self.socket.sendmsg(["".join(f"{word}\0" for word in words).encode()],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            answer = self.socket.recv(100)  # the id of the forked process
        finally:
            os.close(folder)
        assert answer, f"the server of {args[0]} has ended"
        return ForkedProcess(args, int(answer))

    def end(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


servers: OrderedDict[tuple, Server] = OrderedDict()


def server_for(program: str, environment: dict[str, str]) -> Server:
    early = {name: value for name, value in environment.items() if name not in READ_LATE}
    key = (program, tuple(sorted(early.items())))
    if key not in servers:
        if len(servers) == MOST_SERVERS:
            servers.popitem(last=False)[1].end()
        servers[key] = Server(program, early)
    servers.move_to_end(key)
    return servers[key]


def is_script(program: str) -> bool:
    with open(program, "rb") as file:
        return file.read(2) == b"#!"


def start(command: list, environment: dict[str, str], stdout, stderr=None,
          stdin=None) -> subprocess.Popen | ForkedProcess:
    """Forks the program, or starts it if it is a script or there is no library. The streams are open
    files. By default, stderr goes to stdout and stdin is empty."""
    args = list(map(str, command))
    if library is None or is_script(args[0]):
        return subprocess.Popen(args, env=environment, stdin=stdin or subprocess.DEVNULL, stdout=stdout,
                                stderr=stderr or subprocess.STDOUT)
    late = {name: value for name, value in environment.items() if name in READ_LATE | {"LD_PRELOAD"}}
    server = server_for(args[0], environment)
    with open(os.devnull) as empty:
        try:
            return server.fork(args, late, stdin or empty, stdout, stderr or stdout)
        except Exception:  # or the next start would read this late answer
            servers.pop(next(key for key, each in servers.items() if each is server)).end()
            raise


def run(command: list, text: str) -> str:
    """Returns what the program writes for the input `text`. Fails unless the program ends well."""
    with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile("w+") as stdout, \
            tempfile.TemporaryFile("w+") as stderr:
        stdin.write(text)
        stdin.seek(0)
        code = start(command, dict(os.environ), stdout, stderr, stdin).wait()
        for file in (stdout, stderr):
            file.seek(0)
        assert code == 0, f"{command} ended with {code}: {stderr.read()}"
        return stdout.read()
