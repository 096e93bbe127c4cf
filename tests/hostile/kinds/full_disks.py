"""Results on a full disk, which gets room while a command runs. With room, a sweep ends as usual:
nothing is lost, doubled or wrong."""

import contextlib
import pathlib
import shutil
import threading

from tests.hostile import artefacts, figures
from tests.hostile.case import Case
from tests.hostile.mounts import Mounts

RESULTS = "disk/results"
FIGURES = ("status", "loss_first", "loss_last")


def attack(case: Case) -> None:
    (case.work / "disk").mkdir()
    with case.mounted() as mounts:
        case.random.choice([sweep, sweep, training, commands, commands])(case, mounts)


def mount(case: Case, mounts: Mounts, kib: int, inodes: int) -> None:
    case.note(f"{kib} KiB, {inodes} inodes")
    mounts.call(f"mount -t tmpfs -o size={kib}k,nr_inodes={inodes} none $work/disk")


def make_room(mounts: Mounts) -> None:
    mounts.call("rm -f $work/disk/filler* && mount -o remount,size=200m,nr_inodes=100k $work/disk")


@contextlib.contextmanager
def room_after(case: Case, mounts: Mounts, seconds: float):
    case.note(f"room after {seconds:.2f} s")
    timer = threading.Timer(seconds, make_room, (mounts,))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def sweep(case: Case, mounts: Mounts) -> None:
    case.take("sweep")
    mount(case, mounts, case.random.choice([4, 32, 100, 150, 200, 300, 500, 1000]), some_inodes(case))
    fill_and_repeat(case, mounts, "sweep/experiment.yaml", stub=True)
    check(case, mounts, case.artefacts / "sweep/results")


def training(case: Case, mounts: Mounts) -> None:
    """Runs the real trainer, which writes checkpoints."""
    case.take_training()
    mount(case, mounts, case.random.choice([32, 150, 200, 250, 300, 400, 500]), some_inodes(case))
    fill_and_repeat(case, mounts, "experiment.yaml", stub=False)
    check(case, mounts, case.artefacts / "training/results")


def some_inodes(case: Case) -> int:
    return case.random.choice([10_000, 10_000, case.random.randint(3, 60)])


def fill_and_repeat(case: Case, mounts: Mounts, experiment: str, *, stub: bool) -> None:
    variables = {"STUB_RULES": artefacts.RULES}
    with room_after(case, mounts, case.random.random() * 4):
        case.train(experiment, results=RESULTS, stub=stub, environment=variables)
    ended = case.train(experiment, results=RESULTS, stub=stub, environment=variables)
    if ended.status != (1 if stub else 0):
        case.fail(f"with room the sweep ends with {ended.status}\n{ended.excerpt()}")


def commands(case: Case, mounts: Mounts) -> None:
    """Runs commands on a sweep's results. The disk has no free byte or no free inode."""
    usual = case.artefacts / "sweep/results"
    mount(case, mounts, 20_000, 2_000)
    shutil.copytree(usual, mounts.path(RESULTS), symlinks=True)
    shutil.copyfile(case.artefacts / "sweep/tokens.npy", mounts.path("disk/tokens.npy"))
    shutil.copyfile(case.artefacts / "sweep/experiment.yaml", mounts.path("disk/experiment.yaml"))
    if case.random.random() < 0.5:
        mounts.call("cat /dev/zero > $work/disk/filler 2> $work/errors || true")
    else:
        mounts.call("for i in $(seq 4000); do touch $work/disk/filler$i 2> $work/errors || break; done")
    words = case.random.sample([
        ["report"], ["report", "--format", "html", "--output", "disk/page.html"], ["status", "--all"], ["explain", "broken"],
        ["export", "--to", "disk/exported"], ["prune", "--yes", "--not-current"], ["prune", "--yes", "one"],
        ["prune", "--yes", "--checkpoints"], ["merge", f"a={case.artefacts / 'sweep/results'}"], ["train"]], 3)
    with room_after(case, mounts, 1 + case.random.random() * 3):
        for command in words:
            call(case, command)
    make_room(mounts)
    pruned = {"one"} if ["prune", "--yes", "one"] in words else set()
    check(case, mounts, usual, pruned)


def call(case: Case, words: list[str]) -> None:
    variables = {"TMPDIR": case.random.choice([str(case.folder / "tmp"), str(case.work / "disk")])}
    case.note(f"{words}, temporary files in {variables['TMPDIR'][-4:]}")
    if words == ["train"]:
        case.train("disk/experiment.yaml", "--only", "broken", results=RESULTS,
                   environment={**variables, "STUB_RULES": artefacts.RULES})
    else:
        case.fsdp_run(*words, "--results", RESULTS, environment=variables, raw_output=words[0] == "report")


def check(case: Case, mounts: Mounts, usual_results: pathlib.Path, pruned: set[str] = set()) -> None:
    """Compares a copy of the results, made when there was room, with those of a sweep that always had room.
    Pruned points may be missing, or planned again."""
    results = case.work / "copied"
    shutil.copytree(mounts.path(RESULTS), results, symlinks=True)
    figures.check_results(case, results)
    usual = {row["point"]: row for row in figures.comparison(usual_results)}
    mine = [row for row in figures.comparison(results) if not row["experiment"].startswith("a/")]
    for point, expected in usual.items():
        found = [row for row in mine if row["point"] == point]
        if len(found) != 1 and not (point in pruned and not found):
            case.fail(f"{point} is there {len(found)} times")
        for row in found:
            if point in pruned and row["status"] == "planned":
                continue
            # A resumed run has the steps before it was resumed too.
            steps, usual_steps = ((each["steps"] or 0) + (each["resumed_from_step"] or 0)
                                  for each in (row, expected))
            if steps != usual_steps:
                case.fail(f"{point} has {steps} steps, usually {usual_steps}")
            for name in FIGURES:
                is_loss = isinstance(row[name], float) and isinstance(expected[name], float)
                if abs(row[name] - expected[name]) >= 1e-5 if is_loss else row[name] != expected[name]:
                    case.fail(f"{point}: {name} is {row[name]!a}, usually {expected[name]!a}")
