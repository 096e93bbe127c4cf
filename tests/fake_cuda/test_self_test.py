"""Every part of the self-test runs on a fake GPU, with the planned memory."""

import os
import re
import shutil
import subprocess

import pytest


@pytest.fixture
def without_transformer_engine(trainer, tmp_path):
    """A copy of the program without lib/ beside it. Fake GPUs cannot run Transformer Engine's
    kernels."""
    return shutil.copy2(trainer, tmp_path / trainer.name)


def self_test(trainer, preload: str, **variables: str) -> str:
    ended = subprocess.run([trainer, "--self-test"], env=os.environ | {"LD_PRELOAD": preload} | variables,
                           capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr  # fake GPUs compute nothing, so results are wrong
    assert ended.stderr == ""
    return ended.stdout


def test_every_part_of_the_self_test_runs(without_transformer_engine, fake_cuda_with_order):
    said = self_test(without_transformer_engine, fake_cuda_with_order, FAKE_CUDA_CAPABILITY="8.0",
                     FAKE_CUDA_MEMORY_GIB="60", FAKE_CUDA_FREE_MIB=f"0:{60 << 10}")
    assert "FAIL  error" not in said, said
    memory = re.findall(r"memory.*, (?:allocated|reserved) +(\d+) bytes; expected (\d+)", said)
    assert len(memory) == 4 and all(found == planned for found, planned in memory), said
    rows = re.findall(r"^(pass|FAIL|    )  (.+)", said, flags=re.MULTILINE)
    assert len(rows) == 81, said
    of_numbers = [row for row in rows if re.search("resumed|2 evaluations|8 TiB|twice", row[1])]
    assert [verdict for verdict, _ in of_numbers] == ["pass"] * 6, said
    assert len(re.findall(r" (?:TFLOP/s|GB/s)", said)) == 7, said
