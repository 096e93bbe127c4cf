"""Runs fsdp-train as torchrun would: one process per rank, told who it is by its environment."""

import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

TIME_LIMIT_S = 120
LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_")


@dataclass(frozen=True)
class TrainerRun:
    """What every rank reported; `steps[rank]` holds its step events in order."""

    steps: list[list[dict]]

    def losses(self, rank: int = 0) -> list[float]:
        return [step["loss"] for step in self.steps[rank]]

    def gradient_norms(self, rank: int = 0) -> list[float]:
        return [step["gradient_norm"] for step in self.steps[rank]]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def rank_environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return inherited | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }


def wait_for(processes: list[subprocess.Popen]) -> None:
    """Returns when all have ended, or soon after one has ended badly or time has run out; kills the
    others."""
    deadline = time.monotonic() + TIME_LIMIT_S
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                deadline = min(deadline, time.monotonic() + 5)
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def read_steps(file: Path, rank: int) -> list[dict]:
    events = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "run_started" and events[0]["rank"] == rank, events[0]
    assert kinds[-1] == "run_finished", events[-1]
    assert [event["sequence"] for event in events] == list(range(len(events)))
    return [event for event in events if event["kind"] == "step"]


def train(trainer: Path, spec: dict, folder: Path) -> TrainerRun:
    """Trains `spec` (the keys of run.yaml) in `folder`. Fails with every rank's output unless all
    ranks end well."""
    ranks = spec["strategy"]["ranks"]
    attempt = folder / "attempt-1"
    attempt.mkdir(parents=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    port = free_port()
    command = [str(trainer), "--spec", str(folder / "run.yaml"), "--attempt", "1"]
    logs = [attempt / f"rank{rank}.log" for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("w") as output:
            processes.append(
                subprocess.Popen(
                    command,
                    env=rank_environment(rank, ranks, port),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    wait_for(processes)
    if any(process.returncode for process in processes):
        outputs = [
            f"rank {rank} ended with {process.returncode}:\n{log.read_text()}"
            for rank, (process, log) in enumerate(zip(processes, logs))
        ]
        raise AssertionError("\n".join([" ".join(command), *outputs]))
    return TrainerRun(
        [read_steps(attempt / f"events.rank{rank}.jsonl", rank) for rank in range(ranks)]
    )
