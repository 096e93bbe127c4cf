"""Runs a program within limits of time and memory, and returns how it ended."""

import dataclasses
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import tempfile

MEMORY_LIMIT_BYTES = 8 << 30
OUTPUT_LIMIT_BYTES = 1 << 30
ENDING = 4  # PF_EXITING of the kernel, in the flags of /proc/PROCESS/stat


@dataclasses.dataclass
class Ended:
    command: list[str | bytes]
    status: int  # exit status, or minus the signal that ended the program
    output: bytes
    errors: bytes
    timed_out: bool
    left_behind: list[str]  # processes that still ran

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def command_line(self) -> str:
        return shlex.join(os.fsdecode(word)[:300] for word in self.command)

    def excerpt(self) -> str:
        """Returns the status and the beginning of the output."""
        said = [f"    | {line}" for text in (self.errors, self.output)
                for line in text[:3000].decode("utf-8", "backslashreplace").splitlines()[:12]]
        return "\n".join([f"    status {self.status}", *said])


def run(command: list[str | bytes], folder: pathlib.Path, environment: dict[str, str], *,
        limit_s: float, memory_limit: bool = True, limits: dict[int, int] | None = None,
        closed: tuple[int, ...] = (), input_bytes: bytes = b"") -> Ended:
    """`limits` are limits of resources (resource.RLIMIT_*), in addition to the memory limit.
    `closed` lists the standard streams to close."""
    def prepare() -> None:
        if memory_limit:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for kind, value in (limits or {}).items():
            resource.setrlimit(kind, (value, value))
        for descriptor in closed:
            os.close(descriptor)

    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, \
            tempfile.TemporaryFile() as errors:
        given.write(input_bytes)
        given.seek(0)
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=given, stdout=output,
                                   stderr=errors, start_new_session=True, preexec_fn=prepare)
        timed_out = False
        try:
            process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        left = processes_in(folder)
        if timed_out:
            end([process.pid, *left])
            process.wait()
            left = []
        end(left)
        for stream in (output, errors):
            stream.seek(0)
        return Ended(command, process.returncode, output.read(OUTPUT_LIMIT_BYTES),
                     errors.read(OUTPUT_LIMIT_BYTES), timed_out,
                     list(left.values()) if left else [])


def processes_in(folder: pathlib.Path) -> dict[int, str]:
    """Returns the processes whose working folder is `folder`: process id -> program. Leaves out
    processes that are about to end or wait to be reaped, such as the leak checker's helper of a
    killed program."""
    found = {}
    for process in os.listdir("/proc"):
        if not process.isdigit() or int(process) == os.getpid():
            continue
        try:
            if os.readlink(f"/proc/{process}/cwd") == str(folder):
                with open(f"/proc/{process}/stat") as file:
                    name, numbers = file.read().split("(", 1)[1].rsplit(") ", 1)
                if int(numbers.split()[6]) & ENDING == 0:
                    found[int(process)] = name
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return found


def end(processes) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
