"""The day itself: the runner is called again and again, and each fault happens at its moment."""
import time
from collections import Counter

from calls import Calls
from faults import CALLS, OF_FOLDER
from happenings import Happenings

PAUSE_S = 0.002
PATIENCE_S = 2  # longest wait for a moment
RUN_PATIENCE_S = 15  # longest wait for a run's result before the next fault


class Day:
    def __init__(self, workplace, faults, runs, say):
        self.faults, self.runs, self.say = faults, runs, say
        self.happenings = Happenings(workplace, say)
        self.calls = Calls(workplace, runs, self.happenings.lasting, say)
        self.happenings.calls = self.calls
        self.counts, self.missed = Counter(), Counter()
        self._begin = time.monotonic()
        self._next = 0
        self._awaited_since = self._due = None

    def live(self):
        """Runs until all faults have happened and their effects are over."""
        while (self._next < len(self.faults) or self.happenings.lasting() or self.calls.others):
            self.happenings.undo_what_is_over()
            self.calls.follow()
            if self._next < len(self.faults):
                self._meet(self.faults[self._next])
            self.calls.end_at_standstill()
            time.sleep(PAUSE_S)
        self.calls.let_end()

    def _meet(self, fault):
        """Makes the fault happen at its moment, or after a long wait for the moment."""
        now = time.monotonic()
        self._awaited_since = self._awaited_since or now
        waited_s = now - self._awaited_since
        # This spreads the day's faults over all runs.
        is_early = len(self.calls.finished) < self._next * self.runs // len(self.faults)
        if is_early and waited_s < RUN_PATIENCE_S or self._must_wait(fault, waited_s):
            return
        if self._due is None:
            patience_s = PATIENCE_S + (RUN_PATIENCE_S if is_early else 0)
            if not self._has_come(fault.moment) and waited_s < patience_s:
                return
            self._due = now + fault.moment.delay_s
        if now < self._due:
            return
        self._awaited_since = self._due = None
        self._next += 1
        happened = self.happenings.happen(fault)
        name = fault.kind if fault.kind != "signal" else f"{fault.what} to {fault.role}"
        (self.counts if happened else self.missed)[name] += 1
        self.say(f"{now - self._begin:7.2f} s fault {self._next}: {fault}"
                 f"{'' if happened else ' (nobody there)'}; "
                 f"{len(self.calls.finished)} runs finished")

    def _must_wait(self, fault, waited_s):
        lasting = self.happenings.lasting()
        if fault.kind == "vanished" and self.calls.are_opening() and waited_s < RUN_PATIENCE_S:
            return True
        return (fault.kind in OF_FOLDER and bool(lasting & set(OF_FOLDER)) or
                fault.kind in CALLS and "vanished" in lasting or
                fault.kind == "edited" and "edited" in lasting)

    def _has_come(self, moment):
        watch = self.calls.main
        if watch is None or watch.attempt is None:
            return moment.phase == "any" or (moment.phase == "calling" and watch is not None)
        is_training = bool(watch.ranks)
        return {"calling": False, "any": True, "starting": watch.is_starting_ranks(),
                "step": is_training and watch.attempt.step >= moment.step,
                "saving": is_training and watch.attempt.is_saving(),
                "ended": watch.attempt.has_ended}[moment.phase]
