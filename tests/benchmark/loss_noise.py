#!/usr/bin/env python3
"""Measures how far the losses of runs part that compute the same in another order: pairs of random models,
optimizers, methods and strategies with equal total batches. The differences that reports allow come from it. Run by
hand:

    .venv/bin/python tests/benchmark/loss_noise.py --trainer build/release/fsdp-train --pairs 200
"""

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("parity", ".")]
from trainer import of_kind, read_events, start, wait_until_well_ended

TOTAL_BATCH = 8
PRECISIONS = ["fp32", "bf16_mixed", "bf16_true", "fp16_mixed"]
SHOWN_STEPS = [1, 2, 5, 10, 20, 40]
# Relative differences of loss and gradient norm, times the step's number: what runner/answers/loss_facts.cpp allows.
NOISE = {"fp32": (2e-6, 1e-4), "bf16_mixed": (1e-4, 3e-3), "fp16_mixed": (1e-4, 3e-3), "bf16_true": (3e-4, 1e-2)}
MOST_NOISE, AMPLIFICATION = 0.02, 100


def model_and_optimizer(draw: random.Random, precision: str, steps: int) -> dict:
    heads = draw.choice([2, 4])
    optimizer = {"kind": draw.choice(["adamw", "adamw", "sgd"]), "learning_rate": 10 ** draw.uniform(-5, -2.5)}
    if optimizer["kind"] == "adamw" and draw.random() < 0.3:
        optimizer["state_dtype"] = draw.choice(["bf16", "int8"])
    method = {}
    if draw.random() < 0.3:
        method = {"method": draw.choice(["lora", "qlora"]), "lora": {"rank": 4}}
    return method | {
        "model": {"config": {"num_hidden_layers": draw.randint(1, 6), "hidden_size": heads * draw.choice([16, 32, 64]),
                             "intermediate_size": draw.choice([96, 256, 512]), "num_attention_heads": heads,
                             "num_key_value_heads": draw.choice([1, heads]), "vocab_size": 1024,
                             "max_position_embeddings": 512}},
        "data": {"kind": "chess", "sequence_length": draw.choice([32, 64, 128]), "rows": draw.choice(["pad", "pack"])},
        "precision": precision,
        "optimizer": optimizer,
        "train": {"steps": steps, "seed": draw.randint(0, 1000), "warmup_steps_excluded": 0,
                  "report_gradient_norm": True},
        "device": "cpu", "threads_per_rank": 1,
    }


def strategy(draw: random.Random) -> dict:
    kind = draw.choice(["single", "ddp", "fsdp", "fsdp"])
    ranks = 1 if kind == "single" else draw.choice([2, 4])
    chosen = {"kind": kind, "ranks": ranks}
    if kind == "fsdp":
        chosen["sharding"] = draw.choice(["full_shard", "shard_grad_op", "no_shard"])
        chosen["accumulate"] = draw.choice(["sharded", "unsharded"])
    accumulation = draw.choice([1, 2, TOTAL_BATCH // ranks])
    batch = {"size_per_rank": TOTAL_BATCH // ranks // accumulation, "gradient_accumulation_steps": accumulation}
    return {"strategy": chosen, "batch": batch,
            "activation_checkpointing": draw.choice([{}, {"every": 1}])}


def steps_of(trainer: Path, spec: dict, folder: Path) -> list[dict]:
    wait_until_well_ended(start(trainer, spec, folder), folder)
    return of_kind("step", read_events(folder, 0))


def relative(one: float | None, other: float | None) -> float:
    if one is None or other is None:
        return float("nan")
    return abs(one - other) / max(abs(one), abs(other), 1e-30)


def measure(arguments: argparse.Namespace, precision: str, number: int) -> dict:
    draw = random.Random(f"{arguments.seed} {precision} {number}")
    same = model_and_optimizer(draw, precision, arguments.steps)
    with tempfile.TemporaryDirectory() as folder:
        alone = {"strategy": {"kind": "single", "ranks": 1}, "batch": {"size_per_rank": TOTAL_BATCH}}
        plain = steps_of(arguments.trainer, same | alone, Path(folder) / "plain")
        other_way = strategy(draw)
        other = steps_of(arguments.trainer, same | other_way, Path(folder) / "other")
    return {"precision": precision, "number": number, "same": same, "other": other_way,
            "loss": [relative(a["loss"], b["loss"]) for a, b in zip(plain, other, strict=True)],
            "gradient_norm": [relative(a["gradient_norm"], b["gradient_norm"])
                              for a, b in zip(plain, other, strict=True)]}


def part_of_allowed(differences: list[float], noise: float) -> float:
    """Returns the largest part that a difference is of what is allowed at its step."""
    part, before = 0.0, 0.0
    for step, difference in enumerate(differences, 1):
        if not math.isnan(difference):
            part = max(part, difference / max(min(MOST_NOISE, noise * step), AMPLIFICATION * before))
            before = max(before, difference)
    return part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=50, help="of each precision (default 50)")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write one line for each pair there")
    arguments = parser.parse_args()
    pairs = []
    for number in range(arguments.pairs):
        for precision in PRECISIONS:
            pairs.append(measure(arguments, precision, number))
            if arguments.json:
                with arguments.json.open("a") as lines:
                    lines.write(json.dumps(pairs[-1]) + "\n")
    for place, figure in enumerate(("loss", "gradient_norm")):
        for precision in PRECISIONS:
            of_pairs = [pair[figure] for pair in pairs if pair["precision"] == precision]
            for step in (step for step in SHOWN_STEPS if step <= arguments.steps):
                values = sorted(value[step - 1] for value in of_pairs)
                print(f"{figure}, {precision}, step {step}: median {statistics.median(values):.1e}, "
                      f"95 % {values[int(0.95 * len(values))]:.1e}, largest {values[-1]:.1e}")
            part = max(part_of_allowed(differences, NOISE[precision][place]) for differences in of_pairs)
            print(f"{figure}, {precision}: at most {part:.2f} of what reports allow")


if __name__ == "__main__":
    main()
