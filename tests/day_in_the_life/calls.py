"""The calls of a day: the sweep's runner, which is called again whenever it ends, and other
commands."""
import re
import signal
import time
from collections import Counter

from experiment import NAME
from processes import Watch

STANDSTILL_S = 90
PAUSE_S = 0.02
PAUSE_AFTER_REFUSAL_S = 0.5
# A call may always get these refusals.
REFUSALS = ("another fsdp-run", "was not started yet, so it has no log")
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1}


class Calls:
    def __init__(self, workplace, runs, lasting, say):
        """`lasting()` returns the kinds of faults that are in progress."""
        self.workplace, self.runs, self.lasting, self.say = workplace, runs, lasting, say
        self.main = None
        self.others = []  # (Watch, kind of fault)
        self.finished = set()  # runs of the sweep
        self.exits = Counter()
        self.findings = []
        self.news = time.monotonic()  # when there was last progress
        self._pause_until = 0
        self._calls_when_done = 0

    def all(self):
        return [watch for watch in (self.main, *(watch for watch, _ in self.others))
                if watch is not None]

    def find(self, text):
        self.say(f"FOUND: {text}")
        self.findings.append(text)

    def are_opening(self):
        """True if a call may not have opened the results folder yet. If the folder were missing,
        such a call would rightly make one."""
        return any(watch.attempt is None for watch in self.all())

    def add(self, kind, arguments):
        self.others.append((self._started(arguments), kind))

    def follow(self):
        """Reads new events, and calls the sweep's runner again if it has ended."""
        for watch, kind in list(self.others):
            if self._look(watch, kind) is not None:
                self.others.remove((watch, kind))
        if self.main is None:
            self._call_runner()
            return
        status = self._look(self.main)
        if status is None:
            return
        if status == 0 and self.main.is_plain:  # includes runs that finished unseen
            self.finished |= {f"run-{number}" for number in range(self.runs)}
        self._pause_until = time.monotonic() + (PAUSE_AFTER_REFUSAL_S if status == 2 else PAUSE_S)
        self.main = None

    def let_end(self):
        """Waits for the sweep's current call. No call follows."""
        while self.main is not None and self._look(self.main) is None:
            self.end_at_standstill()
            time.sleep(PAUSE_S)
        self.main = None

    def end_at_standstill(self):
        if time.monotonic() - self.news < STANDSTILL_S or self.lasting():
            return
        for watch in self.all():
            self.find(f"call {watch.runner.printed.name} stood still for {STANDSTILL_S} s")
            watch.runner.kill()
        self.news = time.monotonic()

    def _call_runner(self):
        if time.monotonic() < self._pause_until or "vanished" in self.lasting():
            return  # a call would rightly make a new results folder
        for watch, kind in self.others:
            if kind == "second runner" and watch.attempt is not None:  # it runs the sweep now
                self.main = watch
                self.others.remove((watch, kind))
                return
        more = []
        if len(self.finished) >= self.runs:
            # All runs have finished. Later faults disturb reruns.
            self._calls_when_done += 1
            if self._calls_when_done % 4 != 0:
                more = ["--rerun", "--only", f"run {self._calls_when_done // 4 % self.runs}"]
        self.main = self._started(self.workplace.run_arguments(NAME, *more), is_plain=not more)

    def _started(self, arguments, is_plain=False):
        watch = Watch(self.workplace.start(*arguments), self.workplace.trainer, is_plain)
        watch.disturbed_by |= self.lasting()
        self.news = watch.began
        return watch

    def _look(self, watch, kind=None):
        """Reads new events of the call. Returns its exit status, or None if it still runs."""
        status = watch.runner.poll()
        if watch.look():
            self.news = time.monotonic()
        self.finished |= {re.match(r"run-\d+", folder.name)[0] for folder in watch.finished
                          if folder.parent.name == NAME}
        if status is None:
            return None
        self.news = time.monotonic()
        self.exits[status] += 1
        self._judge(watch, kind, status)
        return status

    def _judge(self, watch, kind, status):
        """Checks that the call may end with this status, after the signals and faults that it
        got."""
        name = watch.runner.printed.name
        errors = watch.runner.printed.with_suffix(".err").read_text(errors="replace")
        self.say(f"    call {name} ended with {status}")
        is_refused = any(refusal in errors for refusal in REFUSALS)
        had_begun = ": started," in errors
        if (status in (0, 1) or status == -signal.SIGKILL and signal.SIGKILL in watch.sent or
                status == 130 and watch.sent & STOPS or -status in watch.sent & STOPS and not had_begun or
                status == 2 and (is_refused or watch.disturbed_by and not had_begun)):
            return
        self.find(f"call {name}{f' ({kind})' if kind else ''} ended with {status} after signals "
                  f"{sorted(number.name for number in watch.sent)} and "
                  f"{sorted(watch.disturbed_by)}: {' / '.join(errors.strip().splitlines()[-2:])}")
