"""Runs work on compute nodes without the small libraries that the login node has."""
import subprocess
import sys
from pathlib import Path

from hidden_files import command_that_hides
from workplace import MODES, TINY, experiment


LIBRARIES = ("fmt", "gloo", "pcre2-8", "sentencepiece", "simdjson", "spdlog", "sqlite3", "utf8proc", "xxhash",
             "yaml-cpp")


def shared_libraries():
    return sorted({file.resolve() for name in LIBRARIES
                   for file in Path("/usr/lib").glob(f"*-linux-gnu/lib{name}.so.*")})


def test_programs_and_jobs_run_without_the_small_libraries(own_cluster, workplace):
    without = command_that_hides(shared_libraries())
    assert subprocess.run([*without, sys.executable, "-c", "import sqlite3"],
                          capture_output=True).returncode != 0
    cluster = own_cluster(node_prefix=without)
    points = ["{name: two ranks, strategy: {kind: ddp, ranks: 2}}"]
    for mode in MODES:
        work = workplace(cluster, experiment(points, f"{TINY}, train.steps: 2",
                                             f"mode: {mode}, time: 10"), folder=mode)
        for program in (work.runner, work.trainer):
            helped = subprocess.run([*without, program, "--help"], capture_output=True, text=True)
            assert helped.returncode == 0, helped.stderr
        work.call(*work.with_trainer())
        assert work.attempts() == {"two ranks": ["finished"]}
