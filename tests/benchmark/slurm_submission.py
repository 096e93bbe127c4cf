#!/usr/bin/env python3
"""Measures what many runs cost on a cluster. Run by hand, on an idle machine:

    python3 tests/benchmark/slurm_submission.py --build build/release

Starts its own Slurm (tests/slurm/cluster.py), submits 1,000 runs of a trainer that reports three
steps, and follows them to the end. Prints the time of the command with --detach, which plans,
writes every run's folder and submits. Also prints the time of following, and how often each of
Slurm's programs was started. The minimum is one sbatch an array, and one squeue a poll.

    python3 tests/benchmark/slurm_submission.py --build build/release --runs 5000 --watch 120

lets the runs wait in the queue instead. For 120 seconds one user follows them, and another calls
`status` every 5 seconds. Prints the calls of Slurm's programs in that time, the times of status,
report and cancel, and the bytes that a task of an array reads.
"""

import argparse
import collections
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "slurm"))
from cluster import Cluster  # noqa: E402

EXPERIMENT = """\
experiment: many
base: {{strategy: {{kind: single, ranks: 1}}, train: {{steps: 3}}, device: cpu}}
points: [{{name: stub}}]
sweep: {{product: {{train.seed: [{seeds}]}}}}
"""
PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel")


class Counter:
    """Replaces Slurm's programs by scripts of the same names, which note each start."""

    def __init__(self, folder: Path):
        self.folder = folder / "programs"
        self.folder.mkdir()
        self.calls = folder / "calls"
        for name in PROGRAMS:
            program = self.folder / name
            program.write_text(f'#!/bin/sh\necho {name} >>"{self.calls}"\n'
                               f'exec {shutil.which(name)} "$@"\n')
            program.chmod(0o755)

    def take(self) -> str:
        names = self.calls.read_text().split() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return ", ".join(f"{count} {name}"
                         for name, count in sorted(collections.Counter(names).items()))


@contextlib.contextmanager
def sweep(build: Path, runs: int, settings: list[str], folder: Path):
    """Starts a Slurm and prepares a sweep. Yields the command that submits it, the environment of
    the command, and the counter."""
    cluster = Cluster(folder / "slurm")
    counter = Counter(folder)
    cluster.start(**dict(setting.split("=", 1) for setting in settings))
    environment = {**os.environ, **cluster.environment,
                   "PATH": f"{counter.folder}:{os.environ['PATH']}"}
    file = folder / "many.yaml"
    file.write_text(EXPERIMENT.format(seeds=",".join(map(str, range(1, runs + 1)))))
    try:
        yield [build / "fsdp-run", file, "--launcher", "slurm", "--trainer",
               build / "stub_trainer"], environment, counter
    finally:
        cluster.stop()


def timed(words, **settings):
    start = time.perf_counter()
    ended = subprocess.run(words, text=True, capture_output=True, **settings)
    if ended.returncode != 0:
        sys.exit(ended.stdout[-4000:] + ended.stderr[-4000:])
    return time.perf_counter() - start, ended.stdout


def measure(build: Path, runs: int, settings: list[str], folder: Path) -> None:
    with sweep(build, runs, settings, folder) as (command, environment, counter):
        for option, what in (("--detach", "submitted"), ("--follow", "followed to the end")):
            seconds, _ = timed([*command, option], env=environment, cwd=folder)
            print(f"{runs} runs {what}: {seconds:.2f} s; {counter.take()}", flush=True)


def bytes_read_by_a_task(command, folder, environment):
    """Returns the median over 8 tasks of a sweep of this size. Ranks do not count: srun starts
    them."""
    source = Path(__file__).resolve().parents[2] / "slurm_templates/job.sh"
    template = folder / "job.sh"
    template.write_text(source.read_text().replace("exec {{runner}}", "{{runner}}") +
                        f"grep rchar /proc/$$/io >{folder}/read-$SLURM_ARRAY_TASK_ID\n")
    timed([*command, "--set", f"slurm.template={template}", "--set", "slurm.partition=main",
           "--detach", "--results", folder / "reads"], env=environment, cwd=folder)
    while len(files := list(folder.glob("read-*"))) < 8 or not all(file.stat().st_size for file in files):
        time.sleep(0.5)
    timed([command[0], "cancel", "many", "--results", folder / "reads"], env=environment, cwd=folder)
    reads = sorted(int(file.read_text().split()[1]) for file in files)
    return reads[len(reads) // 2]


def watch_the_status(runner, folder, environment, counter, what, seconds) -> None:
    counter.take()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        timed([runner, "status"], env=environment, cwd=folder)
        time.sleep(5)
    print(f"{what}, {seconds} s: {counter.take()}", flush=True)


def watch(build: Path, runs: int, seconds: int, settings: list[str], folder: Path) -> None:
    waiting = ["--set", "slurm.partition=closed"]
    # Slurm still counts the cancelled tasks of the first sweep for five minutes.
    settings = [f"MaxJobCount={4 * runs}", *settings]
    with sweep(build, runs, settings, folder) as (command, environment, counter):
        runner = command[0]
        print(f"a task of {runs} reads {bytes_read_by_a_task(command, folder, environment):,} bytes",
              flush=True)
        took, _ = timed([*command, *waiting, "--detach"], env=environment, cwd=folder)
        print(f"{runs} runs submitted: {took:.2f} s", flush=True)
        follower = subprocess.Popen([*command, *waiting, "--follow"], env=environment, cwd=folder,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watch_the_status(runner, folder, environment, counter, "a follower and a watcher", seconds)
        follower.terminate()
        follower.wait()
        watch_the_status(runner, folder, environment, counter, "a watcher alone", seconds)
        for words in (["status"], ["report"], ["cancel", "many"], ["report"]):
            took, output = timed([runner, *words], env=environment, cwd=folder)
            print(f"{' '.join(words)}: {took:.2f} s, {output.count(chr(10))} lines; {counter.take()}",
                  flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--watch", type=int, metavar="SECONDS", help="let the runs wait, and watch them")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE",
                        help="of slurm.conf, such as MaxArraySize=301")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        build = arguments.build.resolve()
        if arguments.watch:
            watch(build, arguments.runs, arguments.watch, arguments.settings, Path(folder))
        else:
            measure(build, arguments.runs, arguments.settings, Path(folder))


if __name__ == "__main__":
    main()
