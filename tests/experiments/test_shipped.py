"""Runs the shipped experiments with the profile for any machine, unchanged but shorter."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "experiments").glob("*.yaml"))

# The settings that make runs shorter.
SHORTER = {
    "chess": ["train.steps=2", "batch.total=16"],
    "lab": ["train.sequences=32", "data.sequence_length=32", "train.warmup_steps_excluded=0"],
    "llama3_8b": ["batch.gradient_accumulation_steps=1", "train.max_steps=4", "checkpoint.every_steps=2",
                  "evaluation.batches=2", "data.sequence_length=32"],
    "methods": ["batch={size_per_rank: 1, total: 2}", "train.sequences=4", "train.warmup_steps_excluded=0"],
    "smollm2": ["batch={size_per_rank: 1, total: 2}", "train.sequences=4", "train.warmup_steps_excluded=0"],
    "t5_wikihow": ["train.max_steps=3", "evaluation.batches=2"],
}
ON_SMOLLM2 = ("methods", "smollm2")
# Points that train on equal batches.
ALIKE = {
    "lab": ["4xDDP", "4xFSDP", "offload"],
    "methods": ["QLoRA", "QLoRA FSDP"],
    "smollm2": ["one process", "DDP", "FSDP", "offload"],
    "t5_wikihow": ["one unit", "blocks", "by size", "checkpointing", "no prefetch", "offload"],
}


@pytest.fixture
def call(request):
    runner = request.config.getoption("--runner").resolve()

    def run(*arguments):
        done = subprocess.run([runner, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """Makes the model like make_model.sh, with the tests' packages. Returns the settings that name
    it."""
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    subprocess.run([sys.executable, ROOT / "experiments/data/smollm2/convert.py", folder], check=True)
    return [f"model.source={folder}", f"data.tokenizer={folder}"]


@pytest.mark.parametrize("name", SHORTER)
def test_every_point_ends_and_equal_batches_have_equal_losses(call, tmp_path, smollm2, name):
    shorter = SHORTER[name] + (smollm2 if name in ON_SMOLLM2 else [])
    settings = [argument for change in shorter for argument in ("--set", change)]
    results = tmp_path / "results"
    call(ROOT / f"experiments/{name}.yaml", "--profile", "cpu", "--results", results, *settings)
    report = json.loads(call("report", name, "--results", results, "--format", "json"))
    # The memory limit of chess.yaml is too small for some of its points, by design.
    ends = {"finished", "out_of_memory"} if name == "chess" else {"finished"}
    assert {row["status"] for row in report["rows"]} == ends
    assert all(row["loss_last"] > 0 for row in report["rows"] if row["status"] == "finished")
    losses = {row["point"]: row["loss_last"] for row in report["rows"] if row["point"] in ALIKE.get(name, [])}
    assert list(losses) == ALIKE.get(name, [])
    assert max(losses.values(), default=0) == pytest.approx(min(losses.values(), default=0), rel=1e-5)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_mistake_is_found(call, smollm2, file):
    model = smollm2 if file.stem in ON_SMOLLM2 else []
    settings = [argument for change in model for argument in ("--set", change)]
    assert "no mistake found" in call("check", file, "--profile", "cpu", *settings)
