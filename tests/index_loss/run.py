#!/usr/bin/env python3
"""results.sqlite is deleted, damaged, replaced, locked or made read-only at a random moment of a
sweep. Afterwards the reports must equal those of an undisturbed sweep, and those of an index that
is made from the files alone.

    .venv/bin/python tests/index_loss/run.py --seed 1 --moments 60    each disturbance of each sweep
    .venv/bin/python tests/index_loss/run.py --seed 17                seed 17 again

Each moment has a seed of its own: the first has --seed, and the next ones follow. A moment is a
number of file events: attempts that began or ended, and reported events. The exit status is 0 if
nothing was found. If started as root, this program becomes the user nobody, because root may write
read-only files."""
import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from course import Course, attempts, file_events  # noqa: E402
from disturbances import KINDS, LASTING, Disturbance  # noqa: E402
from place import Place, differences, without_times  # noqa: E402
from sweeps import SWEEPS, write_experiments  # noqa: E402

from tests.hostile.run import become_ordinary  # noqa: E402

MOST_PROBLEMS, LONGEST_PROBLEM = 5, 400  # that are printed of a moment
NO_NEWS_S = 1  # a lasting disturbance ends if the sweep stands still for so long


class Moment:
    """A disturbance from one number of file events to another. A lasting one may refuse calls."""

    def __init__(self, seed, sweep, kind, total, results):
        choice = random.Random(seed)
        self.at = choice.randint(0, total)
        self.copy_at = choice.randint(0, self.at)
        self.until = self.at + choice.randint(1, total)
        self.disturbance = Disturbance(kind, results / "results.sqlite", choice)
        self._has_begun = self._has_copy = self._is_over = False
        self._last = (0, time.monotonic())  # the last number of events, and when it was new

    @property
    def excuses(self):
        return self._has_begun and self.disturbance.kind in LASTING

    @property
    def lasts(self):
        return self.excuses and not self._is_over

    def look(self, count):
        """Disturbs if the moment has come, and ends the disturbance if it has lasted."""
        if count != self._last[0]:
            self._last = (count, time.monotonic())
        is_older_copy = self.disturbance.kind == "older copy"
        if is_older_copy and not self._has_copy and count >= self.copy_at:
            self._has_copy = self.disturbance.keep_copy()
        if not self._has_begun and count >= self.at and (self._has_copy or not is_older_copy):
            self._has_begun = self.disturbance.begin()
            self._last = (count, time.monotonic())
        elif self._has_begun and not self._is_over:
            is_still = time.monotonic() - self._last[1] > NO_NEWS_S
            if count >= self.until or is_still:
                self.end()

    def end(self):
        self.disturbance.end()
        self._is_over = True


class Test:
    def __init__(self, place):
        self.place = place
        self._expected = {}  # name of a sweep -> (answers, file events, attempts)

    def undisturbed(self, sweep):
        if sweep.name not in self._expected:
            results = self.place.folder / f"undisturbed-{sweep.name}"
            course = Course(self.place, sweep, results)
            course.run()
            if course.problems:
                raise RuntimeError(f"undisturbed: {course.problems}")
            self._expected[sweep.name] = (without_times(self.place.answers(results)),
                                          file_events(results), attempts(results))
        return self._expected[sweep.name]

    def problems_of(self, moment, sweep, results):
        expected, _, expected_attempts = self.undisturbed(sweep)
        course = Course(self.place, sweep, results, moment)
        course.run()
        moment.look(file_events(results))
        moment.end()
        yield from course.problems
        try:
            answers = self.place.answers(results)
            yield from differences(without_times(answers), expected)
            rebuilt = self.place.rebuilt_answers(results)
            for difference in differences(rebuilt, answers):
                yield f"made from files: {difference}"
        except ValueError as error:
            yield str(error)
        if attempts(results) != expected_attempts:
            yield f"{attempts(results)} attempts instead of {expected_attempts}"

    def disturb(self, seed):
        """Prints one line. Returns true if nothing was found."""
        sweep = SWEEPS[seed % len(SWEEPS)]
        kind = KINDS[(seed + seed // len(SWEEPS)) % len(KINDS)]
        total = self.undisturbed(sweep)[1]
        results = self.place.folder / f"results-{seed}"
        moment = Moment(seed, sweep, kind, total, results)
        if kind == "read-only" and os.geteuid() == 0:
            print(f"seed {seed}: {sweep.name}, {kind}: left out, root may write to it", flush=True)
            return True
        problems = list(self.problems_of(moment, sweep, results))
        print(f"seed {seed}: {sweep.name}, {kind} at event {moment.at} of {total}: "
              f"{'not ok' if problems else 'ok'}", flush=True)
        for problem in problems[:MOST_PROBLEMS]:
            print(f"    {problem[:LONGEST_PROBLEM]}", flush=True)
        if not problems:
            shutil.rmtree(results)
        return not problems


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moments", type=int, default=1)
    parser.add_argument("--runner", type=Path, default=ROOT / "build/release/fsdp-run")
    parser.add_argument("--trainer", type=Path, default=ROOT / "build/release/stub_trainer")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which stay")
    return parser.parse_args()


def main():
    options = arguments()
    runner, trainer = options.runner.resolve(), options.trainer.resolve()
    become_ordinary((str(runner), str(trainer)))
    folder = options.keep or Path(tempfile.mkdtemp(prefix="index-loss-"))
    place = Place(folder.resolve(), runner, trainer)
    write_experiments(place.folder)
    test = Test(place)
    found = [seed for seed in range(options.seed, options.seed + options.moments)
             if not test.disturb(seed)]
    if found or options.keep:
        print(f"found something at the seeds {found}; all files: {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
