"""The script for a new GPU goes on after failures, and leaves one folder."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from failing_run import write_trainer
from few_games import few_games
from waiting import LIMIT_S

STEPS = ["facts", "self-test", "five-steps", "losses", "plan", "methods", "report", "memory", "calibrate",
         "plan-calibrated", "sanitizer"]
SMALL = {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 4, "vocab_size": 32768, "max_position_embeddings": 128}


@pytest.fixture
def bundle(runner, trainer, fake_cuda, tmp_path):
    """A bundle whose trainer is on fake GPUs, with a small model and a short self-test."""
    source = Path(__file__).resolve().parents[2]
    folder = tmp_path / "bundle"
    shutil.copytree(source / "experiments/data/chess", folder / "chess")
    for file in (runner, source / "cmake/bundle/first-gpu", source / "cmake/bundle/first-gpu.yaml"):
        shutil.copy2(file, folder)
    shutil.copy2(few_games(), folder / "chess/games.csv")
    (folder / "env.sh").touch()
    write_trainer(folder, trainer, fake_cuda, first='case $1 in --self-test*) set -- --self-test=run;; esac')
    (folder / "compute-sanitizer").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    (folder / "compute-sanitizer").chmod(0o755)
    experiment = yaml.safe_load((source / "experiments/methods.yaml").read_text())
    experiment["profiles"]["80gb"]["set"] |= {"model.config": SMALL, "batch.size_per_rank": 1}
    experiment["profiles"]["80gb"]["set"]["data"]["sequence_length"] = 64
    (folder / "methods.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    return folder


def test_it_goes_on_after_failures(bundle, fake_nvml, tmp_path):
    environment = {"FAKE_CUDA_CAPABILITY": "8.0", "FAKE_CUDA_MEMORY_GIB": "80", "FAKE_NVML_GPUS": "80",
                   "LD_LIBRARY_PATH": str(fake_nvml.parent), "PATH": f"{bundle}:{os.environ['PATH']}"}
    ended = subprocess.run([bundle / "first-gpu", tmp_path / "told", "60"], env=os.environ | environment,
                           capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 1, ended.stderr  # fake GPUs compute nothing, so results are wrong
    lines = (tmp_path / "told/summary.txt").read_text().splitlines()
    assert [line.split()[1] for line in lines] == STEPS, ended.stdout
    passed = {line.split()[1] for line in lines if line.startswith("pass")}
    assert passed >= {"facts", "plan", "methods", "report", "memory", "calibrate", "plan-calibrated"}, ended.stdout
    losses = (tmp_path / "told/losses.txt").read_text()
    assert losses.count("5 steps") == 0 and losses.count("1.0e+00") == 6, losses
    memory = (tmp_path / "told/memory.txt").read_text()
    assert all(point in memory for point in ("full, 8-bit states", "LoRA", "QLoRA FSDP"))
    with tarfile.open(tmp_path / "told.tar.gz") as archive:
        assert {f"told/{name}.txt" for name in STEPS} <= set(archive.getnames())


def test_what_no_time_is_left_for_is_left_out(bundle, tmp_path):
    ended = subprocess.run([bundle / "first-gpu", tmp_path / "told", "0"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout.count("left out, as no time is left") >= 8
