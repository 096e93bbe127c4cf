"""The folder of the test, and the calls of fsdp-run there."""
import csv
import os
import re
import shutil
import subprocess

LIMIT_S = 300
# The columns that differ between two undisturbed sweeps.
VARYING = ("started_unix_ms", "total_time_ms", "start_up_time_ms", "training_time_ms")
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
INQUIRIES = (("report", "--format", "csv"), ("report", "--format", "csv", "--all"),
             ("report", "--format", "csv", "--all", "--per-rank"), ("status",), ("status", "--all"))


class Place:
    def __init__(self, folder, runner, trainer):
        self.folder, self.runner, self.trainer = folder, runner, trainer
        self._calls = 0
        for name in ("calls", "tmp", "home"):
            (folder / name).mkdir(parents=True)

    def start(self, *arguments, **environment):
        """Starts fsdp-run, and does not wait for it. `printed` is the name of the files with its
        output."""
        self._calls += 1
        printed = self.folder / f"calls/{self._calls:04}"
        with (printed.with_suffix(".out").open("w") as output,
              printed.with_suffix(".err").open("w") as errors):
            process = subprocess.Popen(
                [self.runner, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"),
                     "TMPDIR": str(self.folder / "tmp"), "STUB_STEP_MS": "5", **environment})
        process.printed = printed
        return process

    def call_sweep(self, name, sweep, results, **environment):
        return self.start(f"{name}.yaml", "--trainer", self.trainer, "--results", results,
                          *sweep.options, **environment)

    def ask(self, results, *inquiry):
        """Returns what a command prints about the results. Raises ValueError if it fails."""
        process = self.start(*inquiry, "--results", results)
        if process.wait(LIMIT_S) != 0:
            raise ValueError(f"{' '.join(inquiry)} ended with {process.returncode}: "
                             f"{process.printed.with_suffix('.err').read_text()}")
        return process.printed.with_suffix(".out").read_text()

    def answers(self, results):
        """Returns inquiry -> its answer."""
        return {" ".join(inquiry): self.ask(results, *inquiry) for inquiry in INQUIRIES}

    def rebuilt_answers(self, results):
        """Returns the answers of an index that is made from the files alone."""
        copy = results.with_name(results.name + "-copy")
        shutil.copytree(results, copy, ignore=shutil.ignore_patterns("results.sqlite*"))
        answers = self.answers(copy)
        shutil.rmtree(copy)
        return answers


def without_times(answers):
    """Returns the answers without what differs between two undisturbed sweeps."""
    return {inquiry: _figures(answer) if inquiry.startswith("report") else DATE.sub("", answer)
            for inquiry, answer in answers.items()}


def _figures(table):
    return [{column: value for column, value in row.items() if column not in VARYING}
            for row in csv.DictReader(table.splitlines())]


def differences(found, expected):
    """Yields what differs in the answers."""
    for inquiry, answer in found.items():
        if answer == expected[inquiry]:
            continue
        lines = [each.splitlines() if isinstance(each, str) else each
                 for each in (answer, expected[inquiry])]
        if len(lines[0]) != len(lines[1]):
            yield f"{inquiry}: {len(lines[0])} rows instead of {len(lines[1])}"
        for one, other in zip(*lines):
            if one == other:
                continue
            if isinstance(one, dict):
                one, other = ({key: row[key] for key in row if one[key] != other[key]}
                              for row in (one, other))
            yield f"{inquiry}: {one} instead of {other}"
