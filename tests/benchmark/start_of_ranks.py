#!/usr/bin/env python3
"""Measures the start of ranks from a checkpoint: the bytes of files that each rank reads, its peak
of RssAnon until the first step begins, and the time until then. Compares several programs:

    .venv/bin/python tests/benchmark/start_of_ranks.py MODEL build/release/fsdp-train [OTHER...]
        [--ranks 8] [--strategy '{kind: fsdp}'] [--optimizer sgd] [--cold]

MODEL is a Hugging Face folder, which may have random weights. Figures are sampled from /proc
without pause. --cold drops the files from the page cache before each start.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile
import time

import numpy
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))

from trainer import events_file, log_file, start  # noqa: E402

MB = 1e6


class Rank:
    def __init__(self, process, folder: pathlib.Path, rank: int):
        self.process = process
        self.folder = folder
        self.rank = rank
        self.rss_anon = 0
        self.read_bytes = 0
        self.start_s = None

    def sample(self, began: float) -> bool:
        """Takes one sample. Returns true if the rank's start is over."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            io = pathlib.Path(f"/proc/{self.process.pid}/io").read_text()
        except OSError:
            return True
        found = re.search(r"RssAnon:\s+(\d+)", status)
        if found and self.start_s is None:
            self.rss_anon = max(self.rss_anon, int(found[1]) * 1024)
        self.read_bytes = int(io.split("rchar:")[1].split()[0])
        events = events_file(self.folder, self.rank)
        if self.start_s is None and events.exists() and "run_started" in events.read_text():
            self.start_s = time.monotonic() - began
        return self.process.poll() is not None or self.start_s is not None


def weights(model: pathlib.Path) -> list[pathlib.Path]:
    return sorted(model.glob("*.safetensors")) or sorted(model.glob("*.bin"))


def drop_from_cache(model: pathlib.Path) -> None:
    for file in weights(model):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(program: pathlib.Path, arguments: argparse.Namespace, scratch: pathlib.Path) -> None:
    model = arguments.model.resolve()
    config = json.loads((model / "config.json").read_text())
    tokens = scratch / "tokens.npy"
    numpy.save(tokens, numpy.zeros((arguments.ranks, 9), dtype=numpy.int32))
    if arguments.cold:
        drop_from_cache(model)
    spec = {
        "model": {"source": str(model)},
        "data": {"kind": "tokens", "train": str(tokens), "sequence_length": 8},
        "strategy": {"ranks": arguments.ranks, **yaml.safe_load(arguments.strategy)},
        "batch": {"size_per_rank": 1, "total": arguments.ranks},
        "optimizer": {"kind": arguments.optimizer},
        "train": {"steps": 1},
        "device": "cpu",
        "threads_per_rank": 1,
    }
    folder = scratch / "run"
    began = time.monotonic()
    processes = start(program.resolve(), spec, folder)
    ranks = [Rank(process, folder, rank) for rank, process in enumerate(processes)]
    try:
        while not all([rank.sample(began) for rank in ranks]):
            pass
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank in ranks:
        if rank.start_s is None:
            raise SystemExit(log_file(folder, rank.rank).read_text())
    size = sum(file.stat().st_size for file in weights(model))
    print(f"{program} ({config['architectures'][0]}, {size / MB:,.0f} MB, {arguments.ranks} ranks, "
          f"{arguments.strategy}, {arguments.optimizer})")
    read_bytes = sum(rank.read_bytes for rank in ranks)
    print(f"  read by all ranks     {read_bytes / MB:9,.0f} MB, {read_bytes / size:.2f} x the files; by one "
          f"at most {max(rank.read_bytes for rank in ranks) / MB:,.0f} MB")
    print(f"  largest RssAnon       {max(rank.rss_anon for rank in ranks) / MB:9,.0f} MB")
    print(f"  until all have begun  {max(rank.start_s for rank in ranks):9.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("programs", type=pathlib.Path, nargs="+")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--strategy", default="{kind: fsdp}")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    for _ in range(arguments.repeats):
        for program in arguments.programs:
            with tempfile.TemporaryDirectory() as scratch:
                measure(program, arguments, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
