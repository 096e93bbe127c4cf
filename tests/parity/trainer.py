"""Runs a trainer like torchrun: one process per rank, whose environment variables name the rank.

A trainer is fsdp-train, or a Python script with fsdp-train's command line and events (see
pytorch_trainer.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import fork_server
import yaml
from ports import free_port
from waiting import wait_until

END_AFTER_A_FAILURE_S = 120  # in which the other ranks must end by themselves
LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_")
PYTORCH = Path(__file__).with_name("pytorch_trainer.py")


@dataclass(frozen=True)
class TrainerRun:
    """The reports of all ranks. `steps[rank]` has the rank's step events in order."""

    steps: list[list[dict]]

    def losses(self, rank: int = 0) -> list[float]:
        return [step["loss"] for step in self.steps[rank]]

    def gradient_norms(self, rank: int = 0) -> list[float]:
        return [step["gradient_norm"] for step in self.steps[rank]]


def rank_environment(rank: int, ranks: int, port: int, threads: int = 1) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return inherited | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                        "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": str(port), "OMP_NUM_THREADS": str(threads)}


def events_file(folder: Path, rank: int = 0) -> Path:
    return folder / "attempt-1" / f"events.rank{rank}.jsonl"


def log_file(folder: Path, rank: int) -> Path:
    return folder / "attempt-1" / f"rank{rank}.log"


def write_spec(spec: dict, folder: Path) -> Path:
    """Makes the folder of a run, and writes `spec` to its run.yaml. Returns this file."""
    (folder / "attempt-1").mkdir(parents=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "run.yaml"


def start(trainer: Path, spec: dict, folder: Path, threads: int = 1,
          preload: Path | str | None = None, *words: str) -> list[subprocess.Popen]:
    """Starts the ranks that train `spec` in `folder`, or do what `words` say."""
    words = ("--attempt", "1", *words, "--spec", str(write_spec(spec, folder)))
    return start_ranks(trainer, words, spec["strategy"]["ranks"], folder, threads, preload)


def start_ranks(trainer: Path, words: Sequence[str], ranks: int, folder: Path, threads: int = 1,
                preload: Path | str | None = None) -> list[subprocess.Popen]:
    """Starts a trainer's ranks with the arguments `words`. Their output goes to `folder`."""
    interpreter = [sys.executable] if trainer.suffix == ".py" else []
    command = [*interpreter, str(trainer), *words]
    port = free_port()
    processes = []
    for rank in range(ranks):
        environment = rank_environment(rank, ranks, port, threads)
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        with log_file(folder, rank).open("w") as log:
            processes.append(fork_server.start(command, environment, log))
    return processes


def wait_for(processes: list[subprocess.Popen]) -> list[int]:
    """Waits until all processes end. Returns their exit codes. Kills those that go on for long after
    another has failed."""
    def have_ended() -> bool:
        return all(process.poll() is not None for process in processes)

    try:
        wait_until("a rank fails or all end", lambda: have_ended() or any(process.poll() for process in processes))
        with suppress(TimeoutError):
            wait_until("the others end", have_ended, END_AFTER_A_FAILURE_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes]


def wait_for_text(text: str, folder: Path, processes: list[subprocess.Popen], rank: int = 0) -> None:
    """Waits until the text is in the events of a rank."""
    def have_ended() -> bool:
        return any(process.poll() is not None for process in processes)

    events = events_file(folder, rank)
    wait_until(f"{events} has {text}", lambda: have_ended() or events.exists() and text in events.read_text(),
               pause_s=0.001)
    assert not have_ended()


def check_ended_well(processes: list[subprocess.Popen], folder: Path) -> None:
    """Fails with every rank's output unless all ranks ended well."""
    if any(process.returncode for process in processes):
        outputs = [
            f"rank {rank} ended with {process.returncode}:\n{log_file(folder, rank).read_text()}"
            for rank, process in enumerate(processes)
        ]
        raise AssertionError("\n".join([" ".join(processes[0].args), *outputs]))


def wait_until_well_ended(processes: list[subprocess.Popen], folder: Path) -> None:
    wait_for(processes)
    check_ended_well(processes, folder)


def read_events(folder: Path, rank: int = 0, ends_with: str = "run_finished") -> list[dict]:
    """Returns the events of a rank. Fails unless they are complete, and the last one says how the rank
    ended."""
    events = [json.loads(line) for line in events_file(folder, rank).read_text().splitlines()]
    assert events[0]["kind"] == "run_started" and events[0]["rank"] == rank, events[0]
    assert events[-1]["kind"] == ends_with, events[-1]
    assert [event["sequence"] for event in events] == list(range(len(events)))
    return events


def read_run(folder: Path, ranks: int) -> TrainerRun:
    return TrainerRun([of_kind("step", read_events(folder, rank)) for rank in range(ranks)])


def of_kind(kind: str, events: list[dict]) -> list[dict]:
    return [event for event in events if event["kind"] == kind]


def train(trainer: Path, spec: dict, folder: Path) -> TrainerRun:
    """Trains `spec` in `folder`. Fails with every rank's output unless all ranks end well."""
    wait_until_well_ended(start(trainer, spec, folder), folder)
    return read_run(folder, spec["strategy"]["ranks"])


def train_under_pytorch(specs: list[dict], folder: Path) -> list[TrainerRun]:
    """Trains several specifications with equal ranks one after the other, in one process per rank.
    Most of the time of a single one would go to starting Python."""
    ranks = specs[0]["strategy"]["ranks"]
    folders = [folder / str(number) for number in range(len(specs))]
    files = list(map(write_spec, specs, folders))
    words = ("--attempt", "1", "--spec", *map(str, files))
    wait_until_well_ended(start_ranks(PYTORCH, words, ranks, folders[0]), folders[0])
    return [read_run(run, ranks) for run in folders]
