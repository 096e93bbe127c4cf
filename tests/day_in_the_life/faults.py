"""The faults that can happen, and the choice of a day's faults by a seed."""
import random
from dataclasses import dataclass, field

# kind -> its number among 100 faults, if this host allows all kinds.
KINDS = {"signal": 44, "reader": 8, "full disk": 6, "vanished": 6, "read-only": 6, "edited": 7,
         "clock": 8, "second runner": 5, "other experiment": 3, "inquiry": 7}
NEEDS_DISK = ("full disk", "read-only")
# These last, and exclude each other.
OF_FOLDER = ("full disk", "vanished", "read-only")
CALLS = ("second runner", "other experiment", "inquiry")  # faults that are one more call
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGKILL", "SIGKILL", "SIGSTOP")
ROLES = ("runner", "runner", "supervisor", "rank", "rank")
EDITS = ("another file", "in place", "appended", "cut short")
INQUIRIES = (
    ["report"], ["report", "--per-rank"],
    ["report", "--format", "html", "--output", "{tmp}/report.html"],
    ["status"], ["status", "--all"], ["explain", "{point}"], ["logs", "{point}"],
    ["export", "--to", "{tmp}/export", "--force"],
    ["prune", "--not-current", "--yes"], ["prune", "--checkpoints", "--keep-last", "1", "--yes"],
    ["merge", "mine={results}", "--results", "{merged}"],
)


@dataclass(frozen=True)
class Moment:
    """When a fault happens: in which phase of a run, and how long after its beginning."""
    phase: str
    step: int
    delay_s: float

    def __str__(self):
        return f"step {self.step}" if self.phase == "step" else self.phase


@dataclass(frozen=True)
class Fault:
    kind: str
    moment: Moment
    what: str = ""  # the signal, the edit, ...
    role: str = ""
    place: float = 0  # from 0 to 1, chooses one of several processes or files
    lasts_s: float = 0
    arguments: list = field(default_factory=list)

    def __str__(self):
        words = [self.kind if self.kind != "signal" else "", self.what,
                 f"to {self.role}" if self.role else "", " ".join(self.arguments),
                 f"for {self.lasts_s:.1f} s" if self.lasts_s else ""]
        return " ".join(word for word in words if word) + f", {self.moment}"


def draw(seed, count, runs, steps, longest_s, has_disk, has_clock):
    """Returns the day's faults. They depend only on the arguments."""
    choice = random.Random(seed)
    weights = {kind: weight for kind, weight in KINDS.items()
               if (has_disk or kind not in NEEDS_DISK) and (has_clock or kind != "clock")}
    faults = [_fault(choice, choice.choices(list(weights), list(weights.values()))[0], runs, steps,
                     longest_s) for _ in range(count)]
    # Once a day an input is replaced for good.
    at = choice.randrange(count // 4, count * 3 // 4) if count >= 4 else 0
    faults[at] = Fault("replaced", _moment(choice, steps))
    return faults


def _moment(choice, steps):
    phase = choice.choices(["calling", "starting", "step", "saving", "ended", "any"],
                           [10, 20, 40, 12, 10, 8])[0]
    longest = {"calling": 0.4, "starting": 0.5, "any": 1.0}.get(phase, 0.03)
    return Moment(phase, choice.randint(1, steps), choice.uniform(0, longest))


def _fault(choice, kind, runs, steps, longest_s):
    moment = _moment(choice, steps)
    lasts_s = 0.1 * (longest_s / 0.1) ** choice.random()  # short ones are more frequent
    match kind:
        case "signal":
            what = choice.choice(SIGNALS)
            return Fault(kind, moment, what, choice.choice(ROLES), choice.random(),
                         min(lasts_s, 5) if what == "SIGSTOP" else 0)
        case "edited":
            return Fault(kind, moment, choice.choice(EDITS), lasts_s=min(lasts_s, 6))
        case "clock":
            hours = choice.choice([-8760, -24, -1, -0.01, 0.01, 1, 24, 8760])
            return Fault(kind, moment, f"{hours:+} h", place=hours)
        case "inquiry":
            return Fault(kind, moment, arguments=choice.choice(INQUIRIES),
                         place=choice.randrange(runs))
        case "second runner" | "other experiment":
            return Fault(kind, moment)
        case "full disk":
            return Fault(kind, moment, place=choice.choice([0, 0, 4096, 65536, 262144]),
                         lasts_s=lasts_s)
        case _:
            return Fault(kind, moment, lasts_s=lasts_s)
