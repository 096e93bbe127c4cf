"""The processes of a runner, and the progress of its run."""
import contextlib
import json
import os
import signal
import time
from pathlib import Path

from host_processes import processes, program_of


def send(pid, number):
    """Sends a signal. Returns false if there is no such process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def children(pid):
    found = []
    with contextlib.suppress(OSError):  # the process or a thread may end meanwhile
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, tasks.read_text().split())
    return found


def processes_of(workplace):
    """Returns all processes that calls have started, as {process id: program}."""
    mark = str(workplace.folder)
    return {pid: Path(program_of(pid)).name for pid, environment in processes()
            if environment.get("FSDP_TEST_DAY") == mark}


class Attempt:
    """The events of rank 0 of an attempt, read while the attempt runs."""

    def __init__(self, run_folder, number):
        self.run_folder = run_folder
        self.file = run_folder / f"attempt-{number}/events.rank0.jsonl"
        self.step = 0
        self.kinds = set()
        self._open = None
        self._rest = ""

    @property
    def has_ended(self):
        return bool(self.kinds & {"run_finished", "run_failed", "run_interrupted"})

    def is_saving(self):
        try:
            return any(name.endswith(".partial")
                       for name in os.listdir(self.run_folder / "checkpoints"))
        except OSError:
            return False

    def read(self):
        """Reads new events. Returns true if there were any."""
        try:
            self._open = self._open or self.file.open()
        except OSError:
            return False
        text = self._rest + self._open.read()
        *lines, self._rest = text.split("\n")
        for event in map(json.loads, lines):
            self.kinds.add(event["kind"])
            self.step = max(self.step, event.get("step", 0))
        return bool(lines)


class Watch:
    """A call of the runner: its supervisor, its ranks, and the attempt that they make."""

    def __init__(self, process, trainer, is_plain):
        self.runner = process
        self.is_plain = is_plain  # the call is for all runs, without --rerun
        self.began = time.monotonic()
        self.trainer = trainer
        self.supervisors, self.ranks = [], []
        self.attempt = None
        self.finished = set()  # folders of runs
        self.sent = set()  # the signals that the runner got
        self.disturbed_by = set()  # kinds of lasting faults during its life

    def look(self):
        """Looks for new processes and events. Returns true if there were any."""
        has_news = self.attempt is not None and self.attempt.read()
        if has_news and "run_finished" in self.attempt.kinds:
            self.finished.add(self.attempt.run_folder)
        ranks = [rank for rank in self.ranks if program_of(rank)]
        if not ranks:
            self.supervisors = children(self.runner.pid)
            # Sorted by rank, because ranks are started in order.
            ranks = sorted(child for supervisor in self.supervisors
                           for child in children(supervisor)
                           if program_of(child) == str(self.trainer))
        if ranks and ranks != self.ranks:
            with contextlib.suppress(OSError, ValueError):  # the rank has ended, or has no arguments yet
                arguments = Path(f"/proc/{ranks[0]}/cmdline").read_text().split("\0")
                self.attempt = Attempt(Path(arguments[arguments.index("--spec") + 1]).parent,
                                       arguments[arguments.index("--attempt") + 1])
        self.ranks = ranks
        return has_news

    def is_starting_ranks(self):
        return bool(self.ranks) and self.attempt is not None and not self.attempt.kinds

    def signal(self, role, place, number):
        """Sends a signal to a process with this role. `place`, from 0 to 1, chooses one of several.
        Returns the process, or None if there is none."""
        runner = [self.runner.pid] if self.runner.poll() is None else []
        pids = {"runner": runner, "supervisor": self.supervisors, "rank": self.ranks}[role]
        pid = pids[int(place * len(pids))] if pids else None
        if pid is None or not send(pid, number):
            return None
        if role == "runner" and number != signal.SIGCONT:
            self.sent.add(number)
        return pid
