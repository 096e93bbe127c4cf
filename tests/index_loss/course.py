"""The course of a sweep: its calls, one after another, and the files that they write."""
import re
import signal
import time

from place import LIMIT_S

PAUSE_S = 0.001
CALLS = 3  # of an experiment in one stage
GATE_OPENS_AT = re.compile(r'"step":3\b')


def file_events(results):
    """Returns how many attempts have begun and ended, plus the number of reported events."""
    count = 0
    for folder in results.glob("runs/*/*/attempt-*"):
        count += (folder / "launch.json").exists() + (folder / "verdict.json").exists()
        count += sum(file.read_bytes().count(b"\n") for file in folder.glob("events.rank*.jsonl"))
    return count


def attempts(results):
    return len(list(results.glob("runs/*/*/attempt-*/launch.json")))


class Calm:
    """The moment of an undisturbed sweep."""
    excuses = lasts = False

    def look(self, count):
        pass


class Course:
    """`moment.look` is called again and again with the number of file events. A call may be refused
    if the moment `excuses` it. The call is made again when the disturbance no longer `lasts`."""

    def __init__(self, place, sweep, results, moment=Calm()):
        self.place, self.sweep, self.results, self.moment = place, sweep, results, moment
        self.gate = results.with_name(results.name + "-gate")
        self.processes = {}  # experiment -> its call
        self.problems = []

    def run(self):
        deadline = time.monotonic() + LIMIT_S
        for number, stage in enumerate(self.sweep.stages):
            is_to_be_killed = self.sweep.is_killed and number == 0
            waiting, calls = list(stage), dict.fromkeys(stage, 0)
            while waiting or self.processes:
                if time.monotonic() > deadline:
                    self.problems.append(f"{list(self.processes)} did not end in {LIMIT_S} s")
                    return self.end()
                self.moment.look(file_events(self.results))
                if waiting and self._may_start(calls[waiting[0]]):
                    self._start(waiting.pop(0), calls)
                if is_to_be_killed and self._is_at_gate():
                    is_to_be_killed = False
                    self._kill()
                if self._has_second_attempt():
                    self.gate.touch()
                for name, process in list(self.processes.items()):
                    if process.poll() is None:
                        continue
                    del self.processes[name]
                    if self._has_failed(process) and calls[name] < CALLS:
                        waiting.append(name)
                time.sleep(PAUSE_S)

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _start(self, name, calls):
        calls[name] += 1
        self.processes[name] = self.place.call_sweep(
            name, self.sweep, self.results, STUB_RULES=self.sweep.rules.format(gate=self.gate))

    def _may_start(self, earlier_calls):
        """The second experiment begins when the first is planned, so runs have the same numbers each
        time."""
        are_planned = all((self.results / f"lists/{name}.json").exists() for name in self.processes)
        return are_planned and not (earlier_calls and self.moment.lasts)

    def _is_at_gate(self):
        events = self.results.glob("runs/*/second-*/attempt-1/events.rank*.jsonl")
        return sum(bool(GATE_OPENS_AT.search(file.read_text())) for file in events) == 2

    def _kill(self):
        [process] = self.processes.values()
        process.kill()
        process.wait()

    def _has_second_attempt(self):
        """The ranks of the first attempt have ended by then. With an open gate they would do more
        steps until their supervisor ends them."""
        return any(self.results.glob("runs/*/second-*/attempt-2/launch.json"))

    def _has_failed(self, process):
        """Returns true if the call must be made again."""
        if process.returncode in (self.sweep.status, -signal.SIGKILL):
            return False
        if not self.moment.excuses:
            errors = process.printed.with_suffix(".err").read_text().strip()
            self.problems.append(f"call {process.printed.name} ended with {process.returncode}: "
                                 f"{' / '.join(errors.splitlines()[-2:])}")
        return True
