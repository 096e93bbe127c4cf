#!/usr/bin/env python3
"""Compares how long two builds take for large sweeps and for reports on many runs. Run by hand, on
two idle cores:

    python3 tests/benchmark/sweep_speed.py BUILD_BEFORE BUILD_NOW

Each build runs a sweep of 1,000 runs of the stub trainer into a results folder of its own. A copy of
this folder then gets 10,000 runs: every run is copied nine times in the database, with other seeds.
The commands are measured on both folders in turns (before, now, before, now, ...). Figures are
medians.
"""

import argparse
import shutil
import sqlite3
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

# The columns that differ in a copy of a run, with their SQL.
CHANGES = {
    "id": "id + :more",
    "run": "run + :more",
    "position": "position + :more",
    "point": "point || '+' || :more",
    "series": "series || '+' || :more",
    "hash": "hash || :more",
    "folder": "folder || '+' || :more",
    "loss_digest": "loss_digest || :more",
    "spec": "json_set(spec, '$.train.seed', (spec ->> '$.train.seed') + :more)",
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", type=Path, nargs=2, metavar="BUILD",
                        help="folder with fsdp-run and stub_trainer: the version before, and now")
    parser.add_argument("--runs", type=int, default=1000, help="of the sweep (default 1000)")
    parser.add_argument("--copies", type=int, default=10, help="of each run (default 10)")
    parser.add_argument("--rounds", type=int, default=5, help="of each command (default 5)")
    return parser.parse_args()


def seconds(folder: Path, *words: str | Path) -> float:
    start = time.perf_counter()
    ended = subprocess.run(words, cwd=folder, text=True, capture_output=True)
    if ended.returncode != 0:
        sys.exit(ended.stdout[-4000:] + ended.stderr[-4000:])
    return time.perf_counter() - start


def copy_runs(file: Path, runs: int, copies: int) -> None:
    with sqlite3.connect(file) as database:
        tables = [name for (name,) in database.execute(
            "select t.name from sqlite_master t join pragma_table_info(t.name) c "
            "where t.type = 'table' and c.name = 'run'")]
        for table in ["runs", *tables]:
            columns = [name for (name,) in database.execute(
                "select name from pragma_table_info(?)", [table])]
            values = [CHANGES.get(name, name) if table == "runs" or name == "run" else name
                      for name in columns]
            number = "id" if table == "runs" else "run"
            for copy in range(1, copies):
                database.execute(f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} "
                                 f"from {table} where {number} <= :runs", {"more": copy * runs, "runs": runs})


def main() -> None:
    arguments = parse_arguments()
    builds = [build.resolve() for build in arguments.builds]
    all_runs = arguments.runs * arguments.copies
    measured = {}

    def measure(what: str, side: int, took: float) -> None:
        measured.setdefault(what, ([], []))[side].append(took)

    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / side for side in ("before", "now")]
        for side, folder in enumerate(folders):
            folder.mkdir()
            (folder / "many.yaml").write_text(
                EXPERIMENT.format(seeds=",".join(map(str, range(1, arguments.runs + 1)))))
            took = seconds(folder, builds[side] / "fsdp-run", "many.yaml", "--trainer",
                           builds[side] / "stub_trainer")
            measure(f"sweep of {arguments.runs} runs", side, took)
            shutil.copytree(folder / "results", folder / "copied")
            copy_runs(folder / "copied/results.sqlite", arguments.runs, arguments.copies)
        for _ in range(arguments.rounds):
            for what, words in ((f"report of {arguments.runs} runs", ["report", "--results", "results"]),
                                (f"report of {all_runs} runs", ["report", "--results", "copied"]),
                                (f"status of {all_runs} runs", ["status", "--results", "copied"])):
                for side, folder in enumerate(folders):
                    measure(what, side, seconds(folder, builds[side] / "fsdp-run", *words))
    print(f"{'':28}  before     now  ratio")
    for what, sides in measured.items():
        before, now = map(statistics.median, sides)
        print(f"{what:28} {before:6.2f} s {now:6.2f} s {now / before:6.2f}")


if __name__ == "__main__":
    main()
