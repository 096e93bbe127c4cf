"""Pairs of right runs that `diverge` once called different, and the faults of broken runs."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmark"
sys.path.append(str(BENCHMARK))

from fingerprint_noise import answer  # noqa: E402


@pytest.mark.parametrize("precision, number, seed", [
    ("fp32", 4, 77),  # a block's scale was the largest of elements that come from codes
    ("bf16_true", 20, 5600),  # a second moment had the code of 0 in one run, and the update was as large as all others
])
def test_right_pairs_are_not_called_different(runner, trainer, precision, number, seed):
    assert answer(argparse.Namespace(runner=runner, trainer=trainer, seed=seed, steps=8), precision, number) == ""


def test_the_faults_of_a_broken_trainer_still_apply_to_the_source():
    subprocess.run(["git", "apply", "--check", BENCHMARK / "breaks/breaks.patch"], cwd=BENCHMARK.parents[1], check=True)
