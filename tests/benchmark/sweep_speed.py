#!/usr/bin/env python3
"""Compares the cost of a sweep of many short runs with JUBE. Run by hand, on an idle machine:

    python3 tests/benchmark/sweep_speed.py --build build/release

Sweeps have 250, 500 and 1,000 runs of a trainer that reports three steps and ends. The local
launcher starts one run after another. Prints the time in total and per run, which stays equal if
the cost is linear. Then prints the time of `fsdp-run report` and `status` over the largest sweep.

JUBE runs as many steps of a trivial command (`true`), then `result` (after `analyse`) and `status`.
It takes minutes for 1,000 steps, so --jube-counts gives the counts that are measured. Figures for
larger counts are extrapolated from the growth between the largest two, and marked with ~. Without
counts, JUBE is left out.
"""

import argparse
import math
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

EXPERIMENT = """\
experiment: speed
base: {{strategy: {{kind: single, ranks: 1}}, train: {{steps: 3}}, device: cpu}}
points: [{{name: stub}}]
sweep: {{product: {{train.seed: [{values}]}}}}
"""

BENCHMARK = """\
name: speed
outpath: bench_run
parameterset:
  - name: parameters
    parameter: {{name: seed, type: int, _: "{values}"}}
patternset:
  - name: patterns
    pattern: {{name: loss, type: float, _: "loss $jube_pat_fp"}}
step:
  - name: run
    use: parameters
    do: 'echo "loss 1.5"'
analyser:
  - name: analyse
    use: patterns
    analyse: {{step: run, file: stdout}}
result:
  use: analyse
  table: {{name: result, style: csv, column: [seed, loss]}}
"""


def seconds_of(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return time.perf_counter() - start


def values(count: int) -> str:
    return ",".join(str(number) for number in range(1, count + 1))


def least(measure, repeat: int) -> float:
    return min(measure() for _ in range(repeat))


class Runner:
    name = "fsdp-run"

    def __init__(self, build: Path):
        self.program = build / "fsdp-run"
        self.trainer = build / "stub_trainer"
        for program in (self.program, self.trainer):
            if not program.exists():
                raise SystemExit(f"{program} is missing; build fsdp-run-program and stub_trainer")

    def measure(self, count: int, folder: Path) -> dict[str, float]:
        (folder / "speed.yaml").write_text(EXPERIMENT.format(values=values(count)))
        program = str(self.program)
        sweep = seconds_of([program, "speed.yaml", "--trainer", str(self.trainer)], folder)
        return {"sweep": sweep,
                "report": least(lambda: seconds_of([program, "report", "speed"], folder), 3),
                "status": least(lambda: seconds_of([program, "status"], folder), 3)}


class Jube:
    name = "JUBE"

    def measure(self, count: int, folder: Path) -> dict[str, float]:
        (folder / "speed.yaml").write_text(BENCHMARK.format(values=values(count)))
        sweep = seconds_of(["jube", "run", "speed.yaml"], folder)
        report = seconds_of(["jube", "result", "bench_run", "--analyse"], folder)
        return {"sweep": sweep, "report": report,
                "status": seconds_of(["jube", "status", "bench_run"], folder)}


def extrapolated(figures: dict[int, dict[str, float]], count: int) -> dict[str, float]:
    """Extrapolates each figure as a power of the count, from the two largest counts."""
    smaller, larger = sorted(figures)[-2:]
    grown = {}
    for what, seconds in figures[larger].items():
        power = math.log(seconds / figures[smaller][what]) / math.log(larger / smaller)
        grown[what] = seconds * (count / larger) ** power
    return grown


def print_row(name: str, count: int, figures: dict[str, float], mark: str = "") -> None:
    cells = [f"{mark}{figures['sweep']:.2f} s", f"{mark}{figures['sweep'] / count * 1000:.1f} ms",
             f"{mark}{figures['report'] * 1000:.0f} ms", f"{mark}{figures['status'] * 1000:.0f} ms"]
    print(f"| {name} | {count} | " + " | ".join(cells) + " |", flush=True)


def measured(program, count: int, base: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        return program.measure(count, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--counts", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--jube-counts", type=int, nargs="*", default=[250, 500, 1000])
    parser.add_argument("--folder", default=None, help="where to write (default: the system's)")
    arguments = parser.parse_args()

    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
    print("| | runs | sweep | per run | report | status |\n| --- | --: | --: | --: | --: | --: |")
    runner = Runner(arguments.build.resolve())
    for count in arguments.counts:
        print_row(runner.name, count, measured(runner, count, arguments.folder))
    if not arguments.jube_counts:
        return
    if shutil.which("jube") is None:
        raise SystemExit("jube is not in PATH: apt-get install jube, or --jube-counts without any")
    jube = Jube()
    figures = {}
    for count in sorted(arguments.jube_counts):
        figures[count] = measured(jube, count, arguments.folder)
        print_row(jube.name, count, figures[count])
    largest = max(arguments.counts)
    if largest > max(figures) and len(figures) > 1:
        print_row(jube.name, largest, extrapolated(figures, largest), "~")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
