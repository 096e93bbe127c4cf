#!/usr/bin/env python3
"""Kills commands that write to a results folder at a random moment: reports that make the index
anew, reports that bring it up to date, merge and prune. When the command was called once more, all
answers must equal those of a folder where nothing was killed.

    .venv/bin/python tests/index_loss/kills.py --seed 1 --kills 300
    .venv/bin/python tests/index_loss/kills.py --seed 17              seed 17 again

Each kill has a seed of its own: the first has --seed, and the next ones follow. The day of faults
(tests/day_in_the_life) kills runners, supervisors and ranks. The exit status is 0 if nothing was
found."""
import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from course import Course  # noqa: E402
from place import LIMIT_S, Place, differences  # noqa: E402
from sweeps import SWEEPS, write_experiments  # noqa: E402

SWEPT = ("local", "repeated")  # the sweeps of the results
MOST_PROBLEMS, LONGEST_PROBLEM = 5, 400  # that are printed of a kill


class Command:
    """A command, and how its results folder is prepared for it."""

    def __init__(self, name, words, prepare=lambda results: None):
        self.name, self.words, self.prepare = name, words, prepare

    def start(self, place, results):
        return place.start(*(str(word).format(results=results) for word in self.words))


def touch_runs(results):
    """Makes a sync read all runs again."""
    for folder in results.glob("runs/*/*"):
        folder.touch()


COMMANDS = (
    Command("index made anew", ("report", "--results", "{results}"),
            lambda results: (results / "results.sqlite").unlink()),
    Command("index brought up to date", ("report", "--results", "{results}"), touch_runs),
    Command("merge", ("merge", "mine={results}-source", "--results", "{results}"),
            lambda results: shutil.copytree(results, f"{results}-source")),
    Command("second merge", ("merge", "mine={results}-source", "--results", "{results}")),
    Command("prune", ("prune", "repeated", "--yes", "--results", "{results}")),
    Command("prune of all", ("prune", "--older-than", "0d", "--yes", "--results", "{results}")),
)
# Removes what a killed prune left.
REST_OF_PRUNE = Command("", ("prune", "--older-than", "9999d", "--yes", "--results", "{results}"))


class Test:
    def __init__(self, place, source):
        self.place, self.source = place, source
        self._expected = {}  # name of a command -> (answers, names of files, seconds)

    def copy(self, command, name):
        results = self.place.folder / name
        shutil.copytree(self.source, results)
        if command.name == "second merge":
            shutil.copytree(self.source, f"{results}-source")
            self.call(COMMANDS[2].start(self.place, results))
        command.prepare(results)
        return results

    @staticmethod
    def call(process):
        """A command that was killed at its very end finds nothing to do."""
        errors = process.printed.with_suffix(".err")
        if process.wait(LIMIT_S) != 0 and "names no run" not in errors.read_text():
            raise ValueError(f"{process.args} ended with {process.returncode}: {errors.read_text()}")

    def undisturbed(self, command):
        if command.name not in self._expected:
            results = self.copy(command, "undisturbed")
            start = time.monotonic()
            self.call(command.start(self.place, results))
            seconds = time.monotonic() - start
            self._expected[command.name] = (*self.state(results), seconds)
            self.remove(results)
        return self._expected[command.name]

    def state(self, results):
        answers = {inquiry: answer.replace(results.name, "RESULTS")
                   for inquiry, answer in self.place.answers(results).items()}
        files = {str(file.relative_to(results)) for file in results.rglob("*")
                 if file.is_file() and not file.name.startswith("results.sqlite")
                 and file.suffix != ".lock"}
        return answers, files

    def problems_of(self, command, choice, results):
        answers, files, seconds = self.undisturbed(command)
        process = command.start(self.place, results)
        time.sleep(choice.uniform(0, seconds))
        process.kill()
        process.wait()
        self.call(command.start(self.place, results))
        self.call(REST_OF_PRUNE.start(self.place, results))
        found_answers, found_files = self.state(results)
        yield from differences(found_answers, answers)
        for file in sorted(found_files ^ files):
            yield f"{file} is {'there' if file in found_files else 'missing'}"

    def kill(self, seed):
        """Prints one line. Returns true if nothing was found."""
        command = COMMANDS[seed % len(COMMANDS)]
        self.undisturbed(command)
        results = self.copy(command, f"results-{seed}")
        try:
            problems = list(self.problems_of(command, random.Random(seed), results))
        except ValueError as error:
            problems = [str(error)]
        print(f"seed {seed}: {command.name}: {'not ok' if problems else 'ok'}", flush=True)
        for problem in problems[:MOST_PROBLEMS]:
            print(f"    {problem[:LONGEST_PROBLEM]}", flush=True)
        if not problems:
            self.remove(results)
        return not problems

    @staticmethod
    def remove(results):
        shutil.rmtree(results)
        shutil.rmtree(f"{results}-source", ignore_errors=True)


def swept(place):
    """Returns a results folder with the runs of two sweeps."""
    results = place.folder / "swept"
    for sweep in SWEEPS:
        if sweep.name in SWEPT:
            Course(place, sweep, results).run()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--runner", type=Path, default=ROOT / "build/release/fsdp-run")
    parser.add_argument("--trainer", type=Path, default=ROOT / "build/release/stub_trainer")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which stay")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kills-"))
    place = Place(folder.resolve(), options.runner.resolve(), options.trainer.resolve())
    write_experiments(place.folder)
    test = Test(place, swept(place))
    found = [seed for seed in range(options.seed, options.seed + options.kills)
             if not test.kill(seed)]
    if found or options.keep:
        print(f"found something at the seeds {found}; all files: {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
