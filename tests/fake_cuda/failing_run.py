"""A run of some ranks on fake GPUs, and how its ranks ended."""

import json
import os
from pathlib import Path

from few_games import few_games
from trainer import events_file, of_kind

OUT_OF_MEMORY, COMMUNICATION = 3, 4


def run(ranks: int) -> dict:
    return {
        "model": {"config": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
                             "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 4096,
                             "max_position_embeddings": 128}},
        "data": {"kind": "chess", "train": str(few_games()), "sequence_length": 64},
        "strategy": {"kind": "fsdp", "ranks": ranks},
        "batch": {"size_per_rank": 16},
        "train": {"steps": 100000},
        "communication": {"timeout_s": 3600},
        "device": "cuda",
        "kernels": "aten",
        "threads_per_rank": 1,
    }


def events(folder: Path, rank: int) -> list[dict]:
    """Returns the events of whole lines."""
    file = events_file(folder, rank)
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def reason(folder: Path, rank: int) -> str:
    [failed] = of_kind("run_failed", events(folder, rank))
    return failed["reason"]


def is_gone(process: int) -> bool:
    """True if the process has ended, even if it is not reaped yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def write_trainer(folder: Path, trainer: Path, preload: str | Path, first: str = "true") -> Path:
    """Writes a script that runs the shell command `first`, then fsdp-train on fake GPUs. Launchers
    without fake GPUs start it."""
    script = folder / "fsdp-train"
    script.write_text(f'#!/bin/sh\n{first}\nLD_PRELOAD="{preload}" exec {trainer} "$@"\n')
    os.chmod(script, 0o755)
    return script
