#!/usr/bin/env python3
"""fsdp-train against transformers under PyTorch: step time and memory, with the same weights,
tokens, threads and math library settings. Run by hand; about 20 minutes on two idle cores.

    .venv/bin/python tests/benchmark/trainer_against_pytorch.py --trainer build/release/fsdp-train

Both sides run in turns (PyTorch, trainer, PyTorch, trainer, ...), so that other load on the machine
meets both; a step time is the median over all rounds without each run's first steps. Memory is
what a rank has resident at its peak and no file backs: the largest VmHWM - RssFile of any rank
after the first steps, read from /proc, so mapped weights and libraries do not count. What Python
and its modules hold does (about 370 MiB before a model is made). glibc's allocator as it is by
default, no torch.compile, sdpa attention, AdamW fused.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import torch
import yaml
from rank_processes import Measurement, measure
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).resolve().parent
LEARNING_RATE = 2e-4
MODEL = dict(
    hidden_size=384,
    intermediate_size=1024,
    num_hidden_layers=8,
    num_attention_heads=6,
    num_key_value_heads=6,
    vocab_size=16000,
    max_position_embeddings=512,
)


@dataclass(frozen=True)
class Setting:
    strategy: str
    ranks: int
    threads: int

    @property
    def name(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        if self.ranks == 1:
            return f"{self.strategy}, {threads}"
        return f"{self.strategy}, {self.ranks} ranks, {threads} each"


SETTINGS = [
    Setting("single", 1, 1),
    Setting("single", 1, 2),
    Setting("ddp", 2, 1),
    Setting("fsdp", 2, 1),
]


@dataclass(frozen=True)
class Comparison:
    setting: str
    pytorch_step_time_ms: float
    trainer_step_time_ms: float
    step_time_ratio: float
    pytorch_memory_bytes: int
    trainer_memory_bytes: int
    memory_ratio: float
    loss_difference_max: float  # relative
    loss_first: float
    loss_last: float


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trainer", type=Path, help="fsdp-train; without it PyTorch runs alone")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each side (default 4)")
    parser.add_argument("--steps", type=int, default=8, help="steps of each run (default 8)")
    parser.add_argument("--warmup", type=int, default=2, help="first steps left out (default 2)")
    parser.add_argument("--batch", type=int, default=4, help="sequences per rank (default 4)")
    parser.add_argument("--sequence-length", type=int, default=256, help="tokens (default 256)")
    parser.add_argument("--only", default="", help="only settings whose name contains this")
    parser.add_argument(
        "--mkl", choices=["default", "avx512", "both"], default="both",
        help="MKL's kernels on both sides: its own choice, or those for AVX-512 on other makers' "
        "processors (default both, one table each)",
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    if arguments.steps <= arguments.warmup + 1:
        parser.error("--steps must leave at least two steps after --warmup")
    return arguments


def write_inputs(folder: Path, arguments: argparse.Namespace) -> None:
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**MODEL))
    model.save_pretrained(folder / "checkpoint")
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, "
          f"{arguments.batch} x {arguments.sequence_length} tokens per rank, fp32")
    rows = arguments.steps * arguments.batch * max(setting.ranks for setting in SETTINGS)
    # Some tokens are much more frequent than others, so that the loss falls.
    uniform = numpy.random.default_rng(1).random((rows, arguments.sequence_length + 1))
    tokens = uniform**4 * MODEL["vocab_size"]
    numpy.save(folder / "tokens.npy", tokens.astype(numpy.int32))


def build_mkl_switch(folder: Path) -> Path:
    """A library to preload whose answer makes MKL take its AVX-512 kernels on any processor."""
    library = folder / "mkl_avx512.so"
    source = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)],
        input=source, text=True, check=True,
    )
    return library


def run_pytorch(
    setting: Setting, inputs: Path, folder: Path, arguments: argparse.Namespace,
    preload: Path | None,
) -> Measurement:
    commands = [
        [
            sys.executable, str(FOLDER / "pytorch_trainer.py"),
            "--strategy", setting.strategy,
            "--checkpoint", str(inputs / "checkpoint"),
            "--tokens", str(inputs / "tokens.npy"),
            "--batch", str(arguments.batch),
            "--steps", str(arguments.steps),
            "--learning-rate", str(LEARNING_RATE),
            "--events", str(folder / f"events.rank{rank}.jsonl"),
        ]
        for rank in range(setting.ranks)
    ]  # fmt: skip
    events, log = folder / "events.rank0.jsonl", folder / "log"
    return measure(commands, events, log, setting.threads, arguments.warmup, preload)


def run_trainer(
    setting: Setting, inputs: Path, folder: Path, arguments: argparse.Namespace,
    preload: Path | None,
) -> Measurement:
    spec = {
        "model": {"source": str(inputs / "checkpoint")},
        "data": {
            "kind": "tokens",
            "train": str(inputs / "tokens.npy"),
            "sequence_length": arguments.sequence_length,
            "shuffle": False,
        },
        "strategy": {"kind": setting.strategy, "ranks": setting.ranks},
        "batch": {"size_per_rank": arguments.batch, "gradient_accumulation_steps": 1},
        "optimizer": {"learning_rate": LEARNING_RATE, "weight_decay": 0.0, "beta2": 0.95},
        "train": {"steps": arguments.steps},
        "device": "cpu",
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (folder / "attempt-1").mkdir()
    command = [str(arguments.trainer), "--spec", str(folder / "run.yaml"), "--attempt", "1"]
    events, log = folder / "attempt-1" / "events.rank0.jsonl", folder / "log"
    return measure(
        [command] * setting.ranks, events, log, setting.threads, arguments.warmup, preload
    )


def run_in_turns(
    setting: Setting, inputs: Path, arguments: argparse.Namespace, preload: Path | None
) -> dict[str, list[Measurement]]:
    sides = {"pytorch": run_pytorch}
    if arguments.trainer is not None:
        sides["trainer"] = run_trainer
    measurements: dict[str, list[Measurement]] = {side: [] for side in sides}
    for round_number in range(1, arguments.rounds + 1):
        for side, run in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                result = run(setting, inputs, Path(folder), arguments, preload)
            measurements[side].append(result)
            print(
                f"{setting.name}: round {round_number}, {side}: "
                f"{statistics.median(result.step_times_ms):.0f} ms, "
                f"{result.memory_bytes / 2**20:.0f} MiB, "
                f"loss {result.losses[0]:.6f} -> {result.losses[-1]:.6f}",
                file=sys.stderr, flush=True,
            )
    return measurements


def median_step_time_ms(runs: list[Measurement]) -> float:
    return statistics.median(time for run in runs for time in run.step_times_ms)


def peak_memory_bytes(runs: list[Measurement]) -> int:
    return round(statistics.median(run.memory_bytes for run in runs))


def compare(setting: Setting, runs: dict[str, list[Measurement]]) -> Comparison:
    pytorch, trainer = runs["pytorch"], runs["trainer"]
    times = median_step_time_ms(pytorch), median_step_time_ms(trainer)
    memory = peak_memory_bytes(pytorch), peak_memory_bytes(trainer)
    differences = [
        abs(have - want) / want
        for run in trainer
        for want, have in zip(pytorch[0].losses, run.losses, strict=True)
    ]
    return Comparison(
        setting=setting.name,
        pytorch_step_time_ms=times[0],
        trainer_step_time_ms=times[1],
        step_time_ratio=times[1] / times[0],
        pytorch_memory_bytes=memory[0],
        trainer_memory_bytes=memory[1],
        memory_ratio=memory[1] / memory[0],
        loss_difference_max=max(differences),
        loss_first=trainer[0].losses[0],
        loss_last=trainer[0].losses[-1],
    )


def print_table(title: str, comparisons: list[Comparison]) -> None:
    print(f"\n{title}\n")
    print("| | PyTorch ms/step | trainer ms/step | ratio | PyTorch MiB | trainer MiB | ratio "
          "| loss | largest loss difference |")
    print("| --- | --: | --: | --: | --: | --: | --: | --- | --: |")
    for row in comparisons:
        print(
            f"| {row.setting} | {row.pytorch_step_time_ms:.0f} | {row.trainer_step_time_ms:.0f} "
            f"| {row.step_time_ratio:.2f} | {row.pytorch_memory_bytes / 2**20:.0f} "
            f"| {row.trainer_memory_bytes / 2**20:.0f} | {row.memory_ratio:.2f} "
            f"| {row.loss_first:.4f} -> {row.loss_last:.4f} | {row.loss_difference_max:.0e} |",
            flush=True,
        )


def main() -> None:
    arguments = parse_arguments()
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder)
        write_inputs(inputs, arguments)
        switches = {}
        if arguments.mkl != "avx512":
            switches["MKL as it is"] = None
        if arguments.mkl != "default":
            switches["MKL's AVX-512 kernels on both sides"] = build_mkl_switch(inputs)
        for title, preload in switches.items():
            rows = []
            for setting in SETTINGS:
                if arguments.only not in setting.name:
                    continue
                runs = run_in_turns(setting, inputs, arguments, preload)
                if arguments.trainer is not None:
                    rows.append(compare(setting, runs))
            if rows:
                print_table(title, rows)
            tables[title] = [asdict(row) for row in rows]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(tables, indent=2) + "\n")


if __name__ == "__main__":
    main()
