"""Runs a trainer (see tests/parity/trainer.py) and measures its ranks from outside."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

TESTS = Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "parity"), str(TESTS)]
from trainer import (  # noqa: E402
    PYTORCH,
    check_ended_well,
    events_file,
    of_kind,
    read_events,
    start,
)

__all__ = ["MODELS", "PYTORCH", "Measurement", "measure", "median", "of_kind", "parser_of", "step_parser_of",
           "write_adapters", "write_inputs"]

POLL_S = 0.02

SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "vocab_size", "max_position_embeddings")
MODELS = {
    "26M": dict(zip(SIZES, (384, 1024, 8, 6, 6, 16000, 512))),
    # With 4 x 128 tokens a rank, communication is a larger share of a step.
    "134M": dict(zip(SIZES, (768, 2048, 12, 12, 12, 32000, 512))),
}


@dataclass(frozen=True)
class Measurement:
    """What was measured of one training run.

    events: of rank 0.
    memory_bytes: the highest peak of resident memory of any rank, after the warm-up steps.
    start_up_time_ms: from the start of the processes until all ranks are about to begin a step.
    """

    events: list[dict]
    memory_bytes: int
    start_up_time_ms: float

    @property
    def losses(self) -> list[float]:
        return self.figures("step", "loss")

    def figures(self, kind: str, name: str) -> list[float]:
        return [event[name] for event in of_kind(kind, self.events)]


def parser_of(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=Path, required=True, help="fsdp-train")
    return parser


def step_parser_of(description: str) -> argparse.ArgumentParser:
    """Returns the parser of a benchmark that compares the steps of one trainer."""
    parser = parser_of(description)
    parser.add_argument("--model", choices=MODELS, default="26M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--sequence-length", type=int, default=128)
    return parser


def median(runs: list[Measurement], figures: Callable[[Measurement], list[float]]) -> float:
    return statistics.median(figure for run in runs for figure in figures(run))


def write_inputs(folder: Path, rows: int, sequence_length: int, model: str = "26M") -> dict:
    """Writes random weights and tokens; returns the keys of run.yaml that name them."""
    disable_progress_bar()
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(**MODELS[model])).save_pretrained(folder / "checkpoint")
    # Some tokens are much more frequent than others, so that the loss falls.
    uniform = numpy.random.default_rng(1).random((rows, sequence_length + 1))
    tokens = uniform**4 * MODELS[model]["vocab_size"]
    numpy.save(folder / "tokens.npy", tokens.astype(numpy.int32))
    return {
        "model": {"source": str(folder / "checkpoint")},
        "data": {
            "kind": "tokens",
            "train": str(folder / "tokens.npy"),
            "sequence_length": sequence_length,
            "shuffle": False,
        },
        "optimizer": {"learning_rate": 2e-4},
        "device": "cpu",
    }


def measure(trainer: Path, spec: dict, folder: Path, warmup: int = 0, threads: int = 1,
            preload: Path | None = None) -> Measurement:
    """Trains `spec` in `folder`, and measures it."""
    started_unix_ms = time.time() * 1000
    processes = start(trainer, spec, folder, threads, preload)
    try:
        memory_bytes = watch(processes, events_file(folder), warmup)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    check_ended_well(processes, folder)
    events = [read_events(folder, rank) for rank in range(len(processes))]
    ready_unix_ms = max(of_rank[0]["time_unix_ms"] for of_rank in events)
    return Measurement(events[0], memory_bytes, ready_unix_ms - started_unix_ms)


def watch(processes: list[subprocess.Popen], events: Path, warmup: int) -> int:
    """Waits until all processes end. Returns the highest memory of any rank after the warm-up
    steps."""
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            return 0
        lines = events.read_text().splitlines(keepends=True) if events.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        if len(of_kind("step", whole)) >= warmup:
            break
        time.sleep(POLL_S)
    running = [process.pid for process in processes if process.poll() is None]
    for pid in running:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets VmHWM to what is resident now (man 5 proc)
    # The trainer resets its peak (VmHWM) at every step, so this takes the maximum of many readings.
    memory_bytes = 0
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            return 0
        memory_bytes = max([memory_bytes, *map(resident_bytes, running)])
        time.sleep(POLL_S)
    return memory_bytes


def resident_bytes(pid: int) -> int:
    """Returns the peak of resident memory that no file backs: VmHWM - RssFile. Mapped weights and
    pages of shared libraries do not count, because they can be dropped and read again. 0 if the
    process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    status = dict(line.split(":", 1) for line in lines)
    if "VmHWM" not in status:
        return 0
    kib = [int(status[name].split()[0]) for name in ("VmHWM", "RssFile")]
    return (kib[0] - kib[1]) * 1024


def write_adapters(folder: Path, inputs: dict) -> dict:
    """Writes random adapters of rank 16 for the inputs' model; returns `lora`."""
    from peft_reference import Adapters, load_model, write_adapter

    adapters = Adapters(rank=16)
    write_adapter(load_model(Path(inputs["model"]["source"])), adapters, folder / "adapter")
    return adapters.keys(folder / "adapter")["lora"]
