"""Starts the ranks of one training run and measures them from outside, whichever program it is."""

import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02


@dataclass(frozen=True)
class Measurement:
    """Rank 0's steps, and the largest resident memory of any rank."""

    losses: list[float]
    step_times_ms: list[float]  # without the warm-up steps
    memory_bytes: int


def resident_bytes(pid: int) -> int:
    """The peak of resident memory that no file backs: VmHWM - RssFile, as read now. Mapped weights
    and the pages of shared libraries can be dropped and read again; they are not counted. 0 when
    the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    status = dict(line.split(":", 1) for line in lines)
    if "VmHWM" not in status:
        return 0
    kib = [int(status[name].split()[0]) for name in ("VmHWM", "RssFile")]
    return (kib[0] - kib[1]) * 1024


def restart_peak(pid: int) -> None:
    """Sets VmHWM to what is resident now (man 5 proc, clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def finished_steps(events: Path) -> list[dict]:
    if not events.exists():
        return []
    lines = [line for line in events.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [event for event in map(json.loads, lines) if event["kind"] == "step"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def rank_environment(rank: int, ranks: int, threads: int, port: int, preload: Path | None) -> dict:
    environment = os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(threads),
    }
    if preload is not None:
        environment["LD_PRELOAD"] = str(preload)
    return environment


def measure(
    commands: list[list[str]], events: Path, log: Path, threads: int, warmup: int,
    preload: Path | None,
) -> Measurement:
    """Runs one command per rank to its end; `events` is what rank 0 writes."""
    port = free_port()
    processes = []
    with log.open("w") as output:
        for rank, command in enumerate(commands):
            environment = rank_environment(rank, len(commands), threads, port, preload)
            processes.append(
                subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            )
    try:
        memory_bytes = watch(processes, events, warmup)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    statuses = [process.returncode for process in processes]
    if any(statuses):
        command = " ".join(commands[0])
        raise SystemExit(f"{command}\nended with {statuses} by rank:\n{log.read_text()}")
    steps = finished_steps(events)
    return Measurement(
        losses=[step["loss"] for step in steps],
        step_times_ms=[step["step_time_ms"] for step in steps[warmup:]],
        memory_bytes=memory_bytes,
    )


def watch(processes: list[subprocess.Popen], events: Path, warmup: int) -> int:
    """Waits for the end. Returns the peak of any rank's memory over the steps after the warm-up."""
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            return 0
        if len(finished_steps(events)) >= warmup:
            break
        time.sleep(POLL_S)
    running = [process.pid for process in processes if process.poll() is None]
    for pid in running:
        restart_peak(pid)
    # The trainer restarts its own peak at every step, so the largest of many readings is taken.
    memory_bytes = 0
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            return 0
        memory_bytes = max([memory_bytes, *map(resident_bytes, running)])
        time.sleep(POLL_S)
    return memory_bytes
