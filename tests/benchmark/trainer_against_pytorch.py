#!/usr/bin/env python3
"""Compares step time and memory of fsdp-train with transformers under PyTorch (DDP, FSDP2, PEFT,
bitsandbytes). Both have the same run.yaml, weights, tokens, threads and settings of math libraries.
Run by hand, on two idle cores:

    .venv/bin/python tests/benchmark/trainer_against_pytorch.py --trainer build/release/fsdp-train
    ... --model 134M --sequence-length 128
    ... --baseline other/fsdp-train        # compares with another version, in place of PyTorch

Both sides run in turns (PyTorch, trainer, PyTorch, trainer, ...), so that other load on the machine
affects both. A step time is the median over all rounds, without each run's first steps.

Memory is the peak of resident memory that no file backs: the largest VmHWM - RssFile of any rank
after the first steps, from /proc. So mapped weights and libraries do not count. The memory of
Python and its modules counts, about 370 MiB before a model is made.

glibc's allocator has its default settings. PyTorch uses sdpa attention and fused AdamW, but no
torch.compile. Fails if the losses differ.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measurement import MODELS, PYTORCH, Measurement, measure, median, parser_of, write_adapters, write_inputs

FULL_SHARD = {"kind": "fsdp", "ranks": 2}
LOSS_TOLERANCE = {"fp32": 1e-5, "bf16_mixed": 5e-3}  # relative


@dataclass(frozen=True)
class Setting:
    description: str
    strategy: dict
    threads: int = 1
    precision: str = "fp32"
    checkpoint_every: int = 0  # activation_checkpointing.every
    by_default: bool = True
    method: str = "full"

    def keys(self, adapters: dict) -> dict:
        method = {} if self.method == "full" else {"method": self.method, "lora": adapters}
        return method | {"strategy": self.strategy, "precision": self.precision,
                         "activation_checkpointing": {"every": self.checkpoint_every}}


# PyTorch's names for our settings. full_shard is FSDP2's default of reshard_after_forward (all but
# the root). shard_grad_op is reshard_after_forward=False. hybrid_shard is a mesh of (replicate,
# shard). offload parameters is CPUOffloadPolicy(pin_memory=False). bf16_mixed is
# MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32).
SETTINGS = {
    "single-1": Setting("single, 1 thread", {"kind": "single", "ranks": 1}),
    "single-2": Setting("single, 2 threads", {"kind": "single", "ranks": 1}, threads=2),
    "ddp": Setting("ddp, 2 ranks", {"kind": "ddp", "ranks": 2}),
    "full_shard": Setting("full_shard, 2 ranks", FULL_SHARD),
    "shard_grad_op": Setting("shard_grad_op, 2 ranks", FULL_SHARD | {"sharding": "shard_grad_op"}),
    "offload": Setting("full_shard, offload parameters", FULL_SHARD | {"offload": "parameters"}),
    # For --baseline: PyTorch has no such offload. On an idle core the optimizer's thread has time.
    "offload_optimizer": Setting("single, 1 thread, offload optimizer",
                                 {"kind": "single", "ranks": 1, "offload": "optimizer"}, by_default=False),
    "bf16_mixed": Setting("full_shard, bf16_mixed", FULL_SHARD, precision="bf16_mixed"),
    "activation_checkpointing": Setting(
        "full_shard, activation checkpointing", FULL_SHARD, checkpoint_every=1
    ),
    "lora": Setting("lora, 1 thread", {"kind": "single", "ranks": 1}, method="lora"),
    # For --baseline: the model of peft does not recompute here.
    "lora_checkpointing": Setting("lora, activation checkpointing", {"kind": "single", "ranks": 1},
                                  checkpoint_every=1, method="lora", by_default=False),
    "qlora": Setting("qlora, 1 thread", {"kind": "single", "ranks": 1}, method="qlora"),
    "hybrid_shard": Setting(
        "hybrid_shard, 2 x 2 ranks",
        {"kind": "fsdp", "ranks": 4, "sharding": "hybrid_shard", "shard_group_size": 2},
        by_default=False,
    ),
}


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--model", choices=MODELS, default="26M",
        help=f"by its number of parameters: {', '.join(MODELS)} (default 26M)",
    )  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="TRAINER", help="another fsdp-train to compare with, in "
                        "place of PyTorch")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each side (default 4)")
    parser.add_argument("--steps", type=int, default=8, help="steps of each run (default 8)")
    parser.add_argument("--warmup", type=int, default=2, help="first steps left out (default 2)")
    parser.add_argument("--batch", type=int, default=4, help="sequences per rank (default 4)")
    parser.add_argument("--sequence-length", type=int, default=256, help="tokens (default 256)")
    parser.add_argument(
        "--only", nargs="+", choices=SETTINGS, metavar="SETTING",
        default=[name for name, setting in SETTINGS.items() if setting.by_default],
        help=f"of {', '.join(SETTINGS)} (default all but hybrid_shard, which wants four cores, and those that PyTorch lacks)",
    )  # fmt: skip
    parser.add_argument(
        "--mkl", choices=["default", "avx512"], default="default",
        help="MKL's kernels on both sides: its own choice, or those for AVX-512 on other makers' "
        "processors",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    if arguments.steps <= arguments.warmup:
        parser.error("--steps must leave a step after --warmup")
    return arguments


def build_mkl_switch(folder: Path) -> Path:
    """Builds a library to preload, with which MKL uses its AVX-512 kernels on any CPU."""
    library = folder / "mkl_avx512.so"
    source = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)],
        input=source, text=True, check=True,
    )  # fmt: skip
    return library


def side_of(arguments: argparse.Namespace) -> str:
    return "baseline" if arguments.baseline else "PyTorch"


def run_in_turns(setting: Setting, spec: dict, arguments: argparse.Namespace,
                 preload: Path | None) -> dict[str, list[Measurement]]:
    runs: dict[str, list[Measurement]] = {side_of(arguments): [], "trainer": []}
    for round_number in range(1, arguments.rounds + 1):
        for side, program in {side_of(arguments): arguments.baseline or PYTORCH, "trainer": arguments.trainer}.items():
            with tempfile.TemporaryDirectory() as folder:
                run = measure(program, spec, Path(folder), arguments.warmup, setting.threads,
                              preload)
            runs[side].append(run)
            step_time_ms = statistics.median(run.figures("step", "step_time_ms")[arguments.warmup:])
            print(
                f"{setting.description}: round {round_number}, {side}: {step_time_ms:.0f} ms, "
                f"{run.memory_bytes / 2**20:.0f} MiB, "
                f"loss {run.losses[0]:.6f} -> {run.losses[-1]:.6f}",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    return runs


def compare(setting: Setting, runs: dict[str, list[Measurement]], warmup: int) -> dict:
    pytorch, trainer = runs.values()
    times = [median(side, lambda run: run.figures("step", "step_time_ms")[warmup:])
             for side in (pytorch, trainer)]
    memory = [round(median(side, lambda run: [run.memory_bytes])) for side in (pytorch, trainer)]
    difference = max(abs(have - want) / want for run in trainer for want,
                     have in zip(pytorch[0].losses, run.losses, strict=True))
    if difference > LOSS_TOLERANCE[setting.precision]:
        raise SystemExit(f"{setting.description}: losses differ by {difference:.1e}")
    return {"setting": setting.description, "pytorch_step_time_ms": times[0],
            "trainer_step_time_ms": times[1], "step_time_ratio": times[1] / times[0],
            "pytorch_memory_bytes": memory[0],
            "trainer_memory_bytes": memory[1], "memory_ratio": memory[1] / memory[0],
            "loss_difference_max": difference, "loss_first": trainer[0].losses[0],
            "loss_last": trainer[0].losses[-1]}


def print_table(comparisons: list[dict], side: str) -> None:
    print(f"\n| | {side} ms/step | trainer ms/step | ratio | {side} MiB | trainer MiB | ratio "
          "| loss | largest loss difference |")
    print("| --- | --: | --: | --: | --: | --: | --: | --- | --: |")
    for row in comparisons:
        mib = {f"{side}_mib": row[f"{side}_memory_bytes"] / 2**20 for side in ("pytorch", "trainer")}
        print("| {setting} | {pytorch_step_time_ms:.0f} | {trainer_step_time_ms:.0f} | {step_time_ratio:.2f} "
              "| {pytorch_mib:.0f} | {trainer_mib:.0f} | {memory_ratio:.2f} "
              "| {loss_first:.4f} -> {loss_last:.4f} | {loss_difference_max:.0e} |".format(**row, **mib))


def main() -> None:
    arguments = parse_arguments()
    settings = [SETTINGS[name] for name in arguments.only]
    ranks = max(setting.strategy["ranks"] for setting in settings)
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        rows = arguments.steps * arguments.batch * ranks
        common = write_inputs(Path(folder), rows, arguments.sequence_length, arguments.model)
        common |= {"batch": {"size_per_rank": arguments.batch}, "train": {"steps": arguments.steps}}
        adapters = write_adapters(Path(folder), common)
        preload = build_mkl_switch(Path(folder)) if arguments.mkl == "avx512" else None
        for setting in settings:
            runs = run_in_turns(setting, common | setting.keys(adapters), arguments, preload)
            comparisons.append(compare(setting, runs, arguments.warmup))
    print_table(comparisons, side_of(arguments))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(comparisons, indent=2) + "\n")


if __name__ == "__main__":
    main()
