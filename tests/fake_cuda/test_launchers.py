"""If a rank is killed at any moment, a run under fsdp-run or torchrun ends and says so. The next
one resumes from its checkpoint."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from failing_run import events, is_gone, reason, run, write_trainer
from trainer import of_kind, write_spec
from waiting import LIMIT_S, wait_until

STEPS = 200
CHECKPOINT_EVERY = 7


def spec_of(ranks: int, seed: int) -> dict:
    return run(ranks) | {"train": {"steps": STEPS, "seed": seed}, "batch": {"size_per_rank": 2},
                         "checkpoint": {"every_steps": CHECKPOINT_EVERY}, "resume": "auto"}


class Lab:
    """A results folder and an experiment of one run."""

    def __init__(self, folder: Path, runner: Path, trainer: Path):
        self.folder, self.runner, self.trainer = folder, runner, trainer

    def start(self, name: str, spec: dict, **environment: str) -> subprocess.Popen:
        experiment = {"experiment": "lab", "base": spec, "points": [{"name": name}]}
        (self.folder / "lab.yaml").write_text(yaml.safe_dump(experiment))
        with (self.folder / "output").open("w") as output:
            return subprocess.Popen([self.runner, "lab.yaml", "--trainer", self.trainer], cwd=self.folder,
                                    env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT)

    def output(self) -> str:
        return (self.folder / "output").read_text()

    def run_folder(self, name: str) -> Path | None:
        return next((self.folder / "results" / "runs" / "lab").glob(f"{name}-*"), None)


@pytest.fixture
def rank_program(trainer, fake_cuda, hold_at_step, tmp_path, monkeypatch) -> Path:
    """A first attempt waits after its last step but one, so it does not end before its kill."""
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")
    monkeypatch.setenv("HOLD_FOLDER", str(tmp_path))
    (tmp_path / "attempt-1").write_text(str(STEPS - 1))
    return write_trainer(tmp_path, trainer, f"{fake_cuda} {hold_at_step}")


@pytest.fixture
def lab(runner, rank_program, fake_nvml, tmp_path, monkeypatch) -> Lab:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_nvml.parent))
    monkeypatch.setenv("FAKE_NVML_GPUS", "24 24 24 24")
    return Lab(tmp_path, runner, rank_program)


def kill_at(event: int, killed: int, ranks: int, folder_of_run, launcher: subprocess.Popen) -> None:
    """Kills the rank `killed` after `event` events. Returns when all processes are gone."""
    def told(rank: int) -> list[dict]:
        folder = folder_of_run()
        return events(folder, rank) if folder else []

    wait_until("it is time for the kill", lambda: len(told(killed)) >= event or launcher.poll() is not None)
    assert launcher.poll() is None
    wait_until("all have begun", lambda: all(told(rank) for rank in range(ranks)))
    processes = [told(rank)[0]["process_id"] for rank in range(ranks)]
    os.kill(processes[killed], signal.SIGKILL)
    wait_until("all are gone", lambda: all(map(is_gone, processes)))


def check_others_name(killed: int, ranks: int, folder: Path) -> None:
    for rank in range(ranks):
        if rank != killed:
            assert reason(folder, rank).startswith(f"rank {killed} of {ranks} failed: its process ended without a message"), rank


def last_checkpoint(folder: Path) -> int:
    return max([event["step"] for event in of_kind("checkpoint", events(folder, 0))], default=0)


def attempt(folder: Path, number: int) -> list[dict]:
    return [json.loads(line) for line in (folder / f"attempt-{number}/events.rank0.jsonl").read_text().splitlines()]


def test_random_kills_under_fsdp_run(lab, request, seed):
    draw = random.Random(seed)
    for number in range(request.config.getoption("--kills")):
        ranks, name = draw.choice([2, 4]), f"kill{number}"
        killed, event = draw.randrange(ranks), draw.randint(1, STEPS // 2)
        print(f"{name}: rank {killed} of {ranks} after {event} events")
        spec = spec_of(ranks, number)
        runner = lab.start(name, spec)
        kill_at(event, killed, ranks, lambda: lab.run_folder(name), runner)
        assert runner.wait(timeout=LIMIT_S) == 1
        assert f"{name}: failed: rank {killed} killed by signal 9 (" in lab.output()
        folder = lab.run_folder(name)
        check_others_name(killed, ranks, folder)
        checkpoint = last_checkpoint(folder)
        assert lab.start(name, spec).wait(timeout=LIMIT_S) == 0, lab.output()
        second = attempt(folder, 2)
        assert checkpoint <= second[0]["resumed_from_step"] < STEPS
        assert second[-1]["kind"] == "run_finished" and second[-1]["steps"] == STEPS


def test_one_rank_out_of_memory_under_fsdp_run(lab):
    runner = lab.start("full", spec_of(4, 0), FAKE_CUDA_FREE_MIB="2:14")
    assert runner.wait(timeout=LIMIT_S) == 0
    assert "full: out_of_memory: rank 2: CUDA out of memory. Tried to allocate" in lab.output()


@pytest.mark.parametrize(("ranks", "killed"), [(2, 1), (4, 0)])
def test_a_rank_that_is_killed_under_torchrun(rank_program, ranks, killed, tmp_path):
    folder = tmp_path / "run"
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
             "--no-python", str(rank_program), "--attempt", "1", "--spec",
             str(write_spec(spec_of(ranks, 0), folder))]
    with (tmp_path / "output").open("w") as output:
        launcher = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
    try:
        kill_at(20, killed, ranks, lambda: folder, launcher)
        launcher.wait(timeout=LIMIT_S)
    finally:
        launcher.terminate()
        launcher.wait()
    check_others_name(killed, ranks, folder)
