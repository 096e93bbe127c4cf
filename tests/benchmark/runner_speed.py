#!/usr/bin/env python3
"""Measures what fsdp-run itself costs, with a stub instead of the trainer. Run by hand:

    python3 tests/benchmark/runner_speed.py --build build/release

Prints the time of a dry run of 10,000 points, the time from the start of fsdp-run to its first trainer
process, the time in which a rank writes one step's event, the CPU time of fsdp-run while four ranks
report a step every 20 ms, and the time of a sweep of 250 and 1,000 runs, whose time per run stays equal
if the cost is linear. Times are medians over --repeat runs, each with a new results folder.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

EXPERIMENT = """\
experiment: speed
base: {{strategy: {{kind: {kind}, ranks: {ranks}}}, train: {{steps: {steps}}}, device: cpu}}
points: [{{name: stub}}]
"""
SWEEP = """\
sweep:
  product:
    batch.size_per_rank: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    activation_checkpointing.every: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    optimizer.learning_rate: [1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 7e-4, 8e-4, 9e-4, 1e-3]
    train.seed: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""


class Programs:
    def __init__(self, build: Path):
        self.runner, self.stub = build / "fsdp-run", build / "stub_trainer"
        for program in (self.runner, self.stub):
            if not program.exists():
                raise SystemExit(f"{program} is missing; build fsdp-run-program and stub_trainer")

    def command(self, experiment: Path, results: Path) -> list[str]:
        return [str(self.runner), str(experiment), "--results", str(results), "--trainer", str(self.stub)]


def write_experiment(folder: Path, kind="single", ranks=1, steps=1, sweep="") -> Path:
    file = folder / "speed.yaml"
    file.write_text(EXPERIMENT.format(kind=kind, ranks=ranks, steps=steps) + sweep)
    return file


def time_ms(command: list[str]) -> float:
    start = time.perf_counter()
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return (time.perf_counter() - start) * 1000


def read_events(folder: Path) -> list[dict]:
    (file,) = folder.glob("**/events.rank0.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def dry_run_ms(programs: Programs, folder: Path) -> float:
    return time_ms([*programs.command(write_experiment(folder, sweep=SWEEP), folder / "results"), "--dry-run"])


def sweep_ms(programs: Programs, folder: Path, runs: int) -> float:
    """Returns the time of a run of the sweep."""
    seeds = ",".join(map(str, range(1, runs + 1)))
    experiment = write_experiment(folder, steps=3, sweep=f"sweep: {{product: {{train.seed: [{seeds}]}}}}\n")
    return time_ms(programs.command(experiment, folder / "results")) / runs


def start_up_ms(programs: Programs, folder: Path) -> float:
    """Returns the time from the start of fsdp-run until the stub has read its run.yaml and
    reports."""
    command = programs.command(write_experiment(folder), folder / "results")
    start_unix_ms = time.time_ns() / 1e6
    time_ms(command)
    return read_events(folder)[0]["time_unix_ms"] - start_unix_ms


def event_writing_us(programs: Programs, folder: Path) -> float:
    """Returns the time of a step of the stub, which only reports it, as the trainer does."""
    steps = 20_000
    (folder / "run.yaml").write_text(f"train: {{steps: {steps}}}\n")
    (folder / "attempt-1").mkdir()
    environment = os.environ | {"RANK": "0", "STUB_STEP_MS": "0"}
    command = [str(programs.stub), "--spec", str(folder / "run.yaml"), "--attempt", "1"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    events = read_events(folder)
    return (events[-1]["time_unix_ms"] - events[0]["time_unix_ms"]) * 1000 / steps


def recording_percent(programs: Programs, folder: Path) -> float:
    """Returns the CPU time of fsdp-run as a share of the time in which its ranks ran."""
    command = programs.command(write_experiment(folder, kind="ddp", ranks=4, steps=150), folder / "results")
    runner = subprocess.Popen(command, env=os.environ | {"STUB_STEP_MS": "20"}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    samples = []
    while runner.poll() is None:
        try:
            threads = Path(f"/proc/{runner.pid}/task").glob("*/schedstat")  # without children
            used_ns = sum(int(thread.read_text().split()[0]) for thread in threads)
            samples.append((time.monotonic_ns(), used_ns))
        except OSError:
            break
        time.sleep(0.05)
    if runner.wait() != 0:
        raise SystemExit(f"{' '.join(command)} ended with {runner.returncode}")
    # Leaves out the start and the final table, because they record nothing.
    (first_time, first_used), (last_time, last_used) = samples[5], samples[-5]
    return 100 * (last_used - first_used) / (last_time - first_time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    programs = Programs(arguments.build.resolve())
    print("| | median | least | most |\n| --- | --: | --: | --: |")
    for name, measure, repeat, unit in [
        ("dry run of 10,000 points", dry_run_ms, arguments.repeat, "ms"),
        ("start to first trainer process", start_up_ms, 4 * arguments.repeat, "ms"),
        ("writing one step's event", event_writing_us, arguments.repeat, "us"),
        ("fsdp-run beside 4 ranks, 50 steps/s each", recording_percent, 1, "% of a core"),
        *((f"a run of {runs}", functools.partial(sweep_ms, runs=runs), 1, "ms") for runs in (250, 1000)),
    ]:
        figures = []
        for _ in range(repeat):
            with tempfile.TemporaryDirectory() as folder:
                figures.append(measure(programs, Path(folder)))
        shown = [f"{figure:.1f} {unit}" for figure in (statistics.median(figures), min(figures), max(figures))]
        print(f"| {name} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
