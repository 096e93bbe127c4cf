#!/usr/bin/env python3
"""Compares how long two builds take for large sweeps, and for commands on many runs. Run by hand, on
two idle cores:

    python3 tests/benchmark/sweep_speed.py BUILD_BEFORE BUILD_NOW

Each build runs a sweep of 1,000 and one of 10,000 runs of the stub trainer, into results folders of
its own. The commands are measured on both builds in turns (before, now, before, now, ...). Figures
are medians.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """\
experiment: many
base: {{strategy: {{kind: single, ranks: 1}}, train: {{steps: 3}}, device: cpu}}
points: [{{name: stub}}]
sweep: {{product: {{train.seed: [{seeds}]}}}}
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", type=Path, nargs=2, metavar="BUILD",
                        help="folder with fsdp-run and stub_trainer: the version before, and now")
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 10_000],
                        help="of each sweep (default 1000 10000)")
    parser.add_argument("--rounds", type=int, default=5, help="of each command (default 5)")
    return parser.parse_args()


def seconds(folder: Path, *words: str | Path) -> float:
    start = time.perf_counter()
    ended = subprocess.run(words, cwd=folder, text=True, capture_output=True)
    if ended.returncode != 0:
        sys.exit(ended.stdout[-4000:] + ended.stderr[-4000:])
    return time.perf_counter() - start


def main() -> None:
    arguments = parse_arguments()
    builds = [build.resolve() for build in arguments.builds]
    measured: dict[str, tuple[list[float], list[float]]] = {}

    def measure(what: str, side: int, took: float) -> None:
        measured.setdefault(what, ([], []))[side].append(took)

    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / side for side in ("before", "now")]
        for folder in folders:
            folder.mkdir()
        for runs in arguments.runs:
            for side, folder in enumerate(folders):
                (folder / "many.yaml").write_text(EXPERIMENT.format(seeds=",".join(map(str, range(runs)))))
                measure(f"sweep of {runs} runs", side, seconds(
                    folder, builds[side] / "fsdp-run", "many.yaml", "--results", str(runs),
                    "--trainer", builds[side] / "stub_trainer"))
        for _ in range(arguments.rounds):
            for runs in arguments.runs:
                for command in ("report", "status"):
                    for side, folder in enumerate(folders):
                        measure(f"{command} of {runs} runs", side, seconds(
                            folder, builds[side] / "fsdp-run", command, "--results", str(runs)))
    print(f"{'':28}  before     now  ratio")
    for what, sides in measured.items():
        before, now = map(statistics.median, sides)
        print(f"{what:28} {before:6.2f} s {now:6.2f} s {now / before:6.2f}")


if __name__ == "__main__":
    main()
