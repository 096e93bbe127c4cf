"""Runs shipped experiments with the profile for any machine, unchanged but shorter. Slurm's tests run
chess.yaml, parity's show that strategies have equal losses, and plan's plan every
profile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# name -> the settings that make runs shorter, and the points that run; all, if there is none
ONE_STEP = ["batch={size_per_rank: 1, total: 2}", "train.sequences=2", "train.warmup_steps_excluded=0"]
SHORTER = {
    "lab": (["train.sequences=32", "data.sequence_length=32", "train.warmup_steps_excluded=0"], None),
    "llama3_8b": (["batch.gradient_accumulation_steps=1", "train.max_steps=4", "checkpoint.every_steps=2",
                   "evaluation.batches=2", "data.sequence_length=32"], None),
    "t5_wikihow": (["train.max_steps=3", "evaluation.batches=2"], None),
    "methods": (ONE_STEP, "QLoRA"),
    "smollm2": (ONE_STEP, "one process"),
}


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory) -> list[str]:
    """Makes the model like make_model.sh, with the tests' packages. Returns the settings that name
    it."""
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    subprocess.run([sys.executable, ROOT / "experiments/data/smollm2/convert.py", folder], check=True)
    return [f"model.source={folder}", f"data.tokenizer={folder}"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.quick] if name == "lab" else []) for name in SHORTER])
def test_every_point_ends(call, request, name):
    shorter, point = SHORTER[name]
    made = request.getfixturevalue("smollm2") if point else []
    settings = [argument for change in [*shorter, *made] for argument in ("--set", change)]
    file = ROOT / f"experiments/{name}.yaml"
    checked = call("check", file, "--profile", "cpu", *settings).stdout
    assert "no mistake found" in " ".join(checked.split())
    call(file, "--profile", "cpu", *settings, *(["--only", point] if point else []))
    rows = json.loads(call("report", name, "--format", "json").stdout)["rows"]
    ended = [row for row in rows if row["point"] == point or point is None]
    assert ended and all(row["status"] == "finished" and row["loss_last"] > 0 for row in ended)
