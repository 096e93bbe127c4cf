"""The self-test goes its way on a GPU: every part of it runs, and memory is what was planned."""

import os
import re
import shutil
import subprocess

import pytest


@pytest.fixture
def without_transformer_engine(trainer, tmp_path):
    """Its kernels lie beside the program, and the GPU that keeps accounts does not serve them."""
    return shutil.copy2(trainer, tmp_path / trainer.name)


def self_test(trainer, preload: str, **variables: str) -> str:
    ended = subprocess.run([trainer, "--self-test"], env=os.environ | {"LD_PRELOAD": preload} | variables,
                           capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr  # what a GPU does not compute is not right
    assert ended.stderr == ""
    return ended.stdout


def test_every_part_of_the_self_test_runs(without_transformer_engine, fake_cuda_with_order):
    said = self_test(without_transformer_engine, fake_cuda_with_order, FAKE_CUDA_CAPABILITY="8.0")
    assert "FAIL  error" not in said, said
    memory = re.findall(r"memory.*, (?:allocated|reserved) +(\d+) bytes; expected (\d+)", said)
    assert len(memory) == 4 and all(found == planned for found, planned in memory), said
    rows = re.findall(r"^(pass|FAIL|    )  (.+)", said, flags=re.MULTILINE)
    assert len(rows) == 63, said
    of_numbers = [row for row in rows if "resumed" in row[1] or "2 evaluations" in row[1]]
    assert [verdict for verdict, _ in of_numbers] == ["pass"] * 3, said
    assert len(re.findall(r" (?:TFLOP/s|GB/s)", said)) == 7, said
