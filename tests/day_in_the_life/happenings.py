"""Makes faults happen, and undoes those that last."""
import os
import signal
import subprocess
import sys
import time

from experiment import EDITED, EDITION, NAME, OTHER, REPLACED, REPLACEMENT
from processes import send

# Runs in its own process, because closing any descriptor of the file would drop this process's
# locks.
READER = """
import sqlite3, sys, time
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=1)
try:
    database.execute("begin")
    database.execute("select * from attempts").fetchone()
    print("reads", flush=True)
    time.sleep(float(sys.argv[2]))
except sqlite3.Error as error:
    print(error, flush=True)
"""


class Happenings:
    def __init__(self, workplace, say):
        self.workplace, self.say = workplace, say
        self.calls = None  # set later, because calls need this object
        self.is_replaced = False
        self._undo = []  # (when, kind, what, whether it may be undone)
        self._more_of_other = []

    def lasting(self):
        """Returns the kinds of faults that are in progress."""
        return {kind for _, kind, *_ in self._undo}

    def undo_what_is_over(self):
        for entry in list(self._undo):
            when, _, undo, may_undo = entry
            if when <= time.monotonic() and may_undo():
                self._undo.remove(entry)
                undo()
                self.calls.news = time.monotonic()

    def happen(self, fault):
        """Makes the fault happen. Returns false if there was nothing to disturb."""
        return getattr(self, "_" + fault.kind.replace(" ", "_").replace("-", "_"))(fault)

    def _last(self, fault, undo, kind=None, may_undo=lambda: True):
        """Registers `undo`, to be called when the fault's time is over and `may_undo()`."""
        self._undo.append((time.monotonic() + fault.lasts_s, kind or fault.kind, undo, may_undo))
        for watch in self.calls.all():
            watch.disturbed_by.add(kind or fault.kind)
        return True

    def _signal(self, fault):
        number = signal.Signals[fault.what]
        watch = self.calls.main
        process = watch.signal(fault.role, fault.place, number) if watch else None
        if process is None:
            return False
        if number == signal.SIGSTOP:
            self._last(fault, lambda: send(process, signal.SIGCONT), "stopped " + fault.role)
        return True

    def _reader(self, fault):
        file = self.workplace.results / "results.sqlite"
        reader = subprocess.Popen([sys.executable, "-c", READER, file, str(fault.lasts_s)],
                                  stdout=subprocess.PIPE, text=True)
        if reader.stdout.readline().strip() != "reads":
            reader.communicate()
            return False

        def end():
            reader.kill()
            reader.communicate()
        return self._last(fault, end)

    def _full_disk(self, fault):
        self.workplace.fill_disk(int(fault.place))
        return self._last(fault, lambda: (self.workplace.disk / "filler").unlink(missing_ok=True))

    def _read_only(self, fault):
        if not self.workplace.results.exists():
            return False
        self.workplace.forbid_writing()
        return self._last(fault, self.workplace.allow_writing)

    def _vanished(self, fault):
        place = self.workplace
        if not place.results.exists() or self.calls.are_opening():
            return False
        place.results.rename(place.away)

        def bring_back():
            if place.results.exists():
                made = [str(path.relative_to(place.results)) for path in place.results.rglob("*")]
                self.calls.find(f"a new results folder was made while it was away: {made[:5]}")
                place.results.rename(place.disk / f"made-{time.monotonic_ns()}")
            place.away.rename(place.results)
        return self._last(fault, bring_back)

    def _edited(self, fault):
        file = self.workplace.project / EDITED
        before, status = file.read_bytes(), file.stat()
        if fault.what == "another file":
            self.workplace.save_tokens(EDITED, EDITION)
        else:
            half = len(before) // 2
            contents = {"in place": before[:half] + bytes(len(before) - half), "appended": before + bytes(68),
                        "cut short": before[:half]}[fault.what]
            with file.open("r+b") as edited:
                edited.write(contents)
                edited.truncate()

        def put_back():  # restores size and time too
            with file.open("r+b") as edited:
                edited.write(before)
                edited.truncate()
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

        have_ended = self._attempts_end()
        is_whole = False

        def may_put_back():
            nonlocal is_whole
            if have_ended():
                return True
            if not is_whole:  # a call that plans judges attempts, and refuses a file cut short
                self.workplace.save_tokens(EDITED, EDITION)
                is_whole = True
            return False
        return self._last(fault, put_back, may_undo=may_put_back)

    def _attempts_end(self):
        """Returns a function whose first call notes the open attempts. It returns true when all of
        them have a verdict. docs/promises.md does not promise to notice a file that was changed and
        put back during one attempt, and the runner compares the files before it writes a verdict."""
        results = self.workplace.results
        open_attempts = None

        def has_no_verdict(attempt):
            return (attempt / "launch.json").exists() and not (attempt / "verdict.json").exists()

        def have_ended():
            nonlocal open_attempts
            if self.workplace.away.exists():
                return False
            if open_attempts is None:
                open_attempts = list(results.glob("runs/*/*/attempt-*"))
            open_attempts = [attempt for attempt in open_attempts if has_no_verdict(attempt)]
            return not open_attempts
        return have_ended

    def _replaced(self, _):
        self.workplace.save_tokens(REPLACED, REPLACEMENT)
        self.is_replaced = True
        return True

    def _clock(self, fault):
        self.workplace.set_clock(int(fault.place * 3600))
        return True

    def _second_runner(self, fault):
        self.calls.add(fault.kind, self.workplace.run_arguments(NAME))
        return True

    def _other_experiment(self, fault):
        self.calls.add(fault.kind, self.workplace.run_arguments(OTHER, *self._more_of_other))
        self._more_of_other = ["--rerun"]
        return True

    def _inquiry(self, fault):
        place = self.workplace
        names = {"tmp": place.folder / "inquiries", "results": place.results,
                 "merged": place.merged, "point": f"{NAME}/run {int(fault.place)}"}
        names["tmp"].mkdir(exist_ok=True)
        arguments = [argument.format(**names) for argument in fault.arguments]
        if "--results" not in arguments:
            arguments += ["--results", place.results]
        self.calls.add(fault.kind, arguments)
        return True
