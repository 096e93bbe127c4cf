"""Fingerprints of steps on GPUs. Their sums are right on the CPU (tests/trainer/fingerprint); here
each operation has a kernel for GPUs."""
import json

import pytest
from failing_run import run
from trainer import start, wait_until_well_ended


@pytest.fixture(autouse=True)
def capability(monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_chosen_steps_are_recorded_on_gpus(kind, trainer, fake_cuda, tmp_path):
    spec = run(2)
    spec["strategy"]["kind"] = kind
    spec["train"] = {"steps": 3, "fingerprint_steps": ["2-3"]}
    wait_until_well_ended(start(trainer, spec, tmp_path, preload=fake_cuda), tmp_path)
    names = sorted(file.name for file in tmp_path.glob("attempt-1/fingerprints/*"))
    assert names == [f"step-{step}.rank{rank}.jsonl" for step in (2, 3) for rank in (0, 1)]
    for name in names:
        lines = (tmp_path / "attempt-1/fingerprints" / name).read_text().splitlines()
        assert json.loads(lines[-1])["fingerprints"] == len(lines) - 2
