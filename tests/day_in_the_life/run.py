#!/usr/bin/env python3
"""A day in the life of a results folder: faults disturb a sweep of real runs with checkpoints. The
seed determines the faults. At the end every run must be there once. Its figures must follow from
its events, and its losses must equal those of an undisturbed sweep.

    .venv/bin/python tests/day_in_the_life/run.py --seed 1                  200 faults on 30 runs
    .venv/bin/python tests/day_in_the_life/run.py --seed 1 --faults 12 --runs 6 --longest 2

The exit status is 0 if nothing was found. Full disks and read-only folders need a mount namespace,
and clock steps need Debian's package faketime. Faults that this host does not allow are left out,
with a message."""
import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/slurm"), str(ROOT / "tests")]  # host_processes, waiting

import checks  # noqa: E402
from day import Day  # noqa: E402
from experiment import CONTENTS, NAME, OTHER, REPLACED, REPLACEMENT, STEPS  # noqa: E402
from faults import draw  # noqa: E402
from processes import processes_of  # noqa: E402
from waiting import wait_until  # noqa: E402
from workplace import Workplace, in_own_mounts  # noqa: E402

CALM_CALLS = 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--longest", type=float, default=20, help="seconds that a fault lasts")
    parser.add_argument("--runner", default=ROOT / "build/release/fsdp-run")
    parser.add_argument("--trainer", default=ROOT / "build/release/fsdp-train")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which stay")
    return parser.parse_args()


def undisturbed_sweeps(place):
    """Runs both experiments with the first inputs, and with one input replaced. Returns the losses
    of all runs. For both states, also returns the runs that the experiments define, and the inputs'
    digests."""
    at_the_end = []
    for seed in (REPLACEMENT, CONTENTS[REPLACED]):  # the initial inputs last, so they stay
        place.save_tokens(REPLACED, seed)
        for name in (NAME, OTHER):
            ended = place.call(*place.run_arguments(name, results=place.undisturbed))
            if ended.returncode != 0:
                raise RuntimeError(f"call {ended.printed} failed, and nothing disturbed it")
        database = checks.open_results(place.undisturbed)
        runs = [tuple(row) for row in database.execute(
            "select experiment, point, hash from runs where current = 1")]
        at_the_end.insert(0, (runs, place.contents_outside()))
    return checks.losses_of(place.undisturbed), *at_the_end


def call_until_finished(day, place):
    """Calls both experiments without faults until they finish. Returns the number of calls."""
    place.set_clock(0)
    calls = 0
    for name in (NAME, OTHER):
        for _ in range(CALM_CALLS):
            calls += 1
            ended = place.call(*place.run_arguments(name))
            if ended.returncode == 0:
                break
            day.say(f"calm call {ended.printed.name} of {name} ended with {ended.returncode}")
        else:
            day.calls.find(f"{name}: not finished after {CALM_CALLS} calls without faults")
    return calls


def check(day, place, undisturbed, runs, outside):
    place.call("prune", "--not-current", "--yes", "--results", place.results)
    ended = place.call("merge", f"mine={place.results}", "--results", place.merged)
    if ended.returncode != 0:
        errors = ended.printed.with_suffix(".err").read_text()
        day.calls.find(f"the results cannot be merged: {errors}")
    database = checks.open_results(place.results)
    for findings in (
            checks.whole_database(database), checks.every_run_once(database, runs),
            checks.losses_are_those_of(checks.losses_of(place.results), undisturbed),
            checks.figures_follow_from_events(place.results, database),
            checks.nothing_stray(place.results, database),
            checks.checkpoints_are_complete(place.results),
            checks.merged_is_the_same(place.results, place.merged),
            checks.exported_losses(place, undisturbed),
            checks.table_shows_the_figures(place, database)):
        for finding in findings:
            day.calls.find(finding)
    try:
        wait_until("no process is left", lambda: not processes_of(place), 20)
    except TimeoutError:
        day.calls.find(f"left behind: {processes_of(place)}")
    after = place.contents_outside()
    if different := [name for name in sorted(outside.keys() | after.keys())
                     if outside.get(name) != after.get(name)]:
        day.calls.find(f"changed outside of the results folder: {different[:5]}")


def live(options, place):
    def say(line):
        print(line, flush=True)
    begin = time.monotonic()
    for missing, what in ((not place.has_disk, "full disk and read-only: nothing can be mounted"),
                          (not place.has_clock, "clock: libfaketime is not there, or not for "
                                                "programs with sanitizers")):
        if missing:
            say(f"left out: {what}")
    undisturbed, first, later = undisturbed_sweeps(place)
    say(f"undisturbed: {len(undisturbed)} runs, {time.monotonic() - begin:.0f} s")
    faults = draw(options.seed, options.faults, options.runs, STEPS, options.longest,
                  place.has_disk, place.has_clock)
    day = Day(place, faults, options.runs, say)
    day.live()
    calm = call_until_finished(day, place)
    check(day, place, undisturbed, *(later if day.happenings.is_replaced else first))
    report(day, place, calm, begin)
    return not day.calls.findings


def report(day, place, calm, begin):
    database = checks.open_results(place.results)
    attempts = Counter(row[0] for row in database.execute("select status from attempts"))
    for what, counts in (("faults", day.counts), ("to which nobody was there", day.missed),
                         ("calls by exit status", day.calls.exits), ("attempts", attempts)):
        day.say(f"{what}: {sum(counts.values())} "
                f"({', '.join(f'{name}: {count}' for name, count in counts.most_common())})")
    day.say(f"calls without faults at the end: {calm}; {time.monotonic() - begin:.0f} s")
    day.say(f"{len(day.calls.findings)} findings")
    for finding in day.calls.findings:
        day.say(f"  {finding}")


def main():
    options = arguments()
    in_own_mounts()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="day-"))
    place = Workplace(folder, options.runs, options.runner, options.trainer)
    good = False
    try:
        good = live(options, place)
    finally:
        place.end(kept=options.keep or not good)
    if options.keep or not good:
        print(f"all files: {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
