#!/usr/bin/env python3
"""Compares the step time that `fsdp-run plan` predicts after `fsdp-run calibrate` with the step
time of real runs. Run by hand, on two idle cores:

    .venv/bin/python tests/benchmark/predicted_step_times.py --runner build/release/fsdp-run

The runs are random, on the CPU. They vary in family, strategy, sharding, wrap, depth, batch,
accumulation, checkpointing, clipping and offload. The seed is printed. A shared host is up to a
fifth faster or slower for minutes at a time. So each round calibrates, plans and runs everything
again.

The error of a run is (planned - measured) / measured. Both are medians over the rounds; a round's
measured time is the median of its steps. The spread is (most - least) / median of the measured
times.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

# The calibrated models. The other keys of a run are random.
MODELS = {
    "llama": {
        "model.config": {
            "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8,
            "num_key_value_heads": 8, "vocab_size": 1024, "max_position_embeddings": 512,
        },
        "data.sequence_length": 128,
        "optimizer.kind": "adamw",
        "precision": "fp32",
    },
    "qwen3": {
        "model.config": {
            "architecture": "Qwen3ForCausalLM", "hidden_size": 384, "intermediate_size": 1024,
            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64,
            "vocab_size": 2048, "max_position_embeddings": 512,
        },
        "data.sequence_length": 64,
        "optimizer.kind": "sgd",
        "precision": "bf16_mixed",
    },
}
STRATEGIES = ("single", "ddp", "fsdp")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", type=Path, required=True, help="fsdp-run")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--steps", type=int, default=16, help="of each run (default 16)")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def random_strategy(random_: random.Random, kind: str) -> dict:
    if kind == "single":
        return {"kind": kind}
    strategy = {"kind": kind, "ranks": 2}
    if random_.random() < 0.2:
        strategy["offload"] = "optimizer"
    if kind == "fsdp":
        strategy["sharding"] = random_.choice(["full_shard", "shard_grad_op"])
        strategy["prefetch"] = random_.choice([0, 1, 2])
        strategy["wrap"] = random_.choice(["transformer_block", {"blocks": 2}])
    return strategy


def random_point(random_: random.Random, number: int) -> dict:
    kind = STRATEGIES[number % len(STRATEGIES)]
    name, model = random_.choice(list(MODELS.items()))
    return model | {
        "name": f"{number} {kind} {name}",
        "model.config": model["model.config"] | {"num_hidden_layers": random_.randint(2, 8)},
        "strategy": random_strategy(random_, kind),
        "batch": {
            "size_per_rank": random_.choice([1, 2, 3, 4, 6, 8]),
            "gradient_accumulation_steps": random_.choice([1, 1, 2, 3]),
        },
        "activation_checkpointing.every": random_.choice([0, 0, 1, 2]),
        "optimizer.gradient_clip_norm": random_.choice([None, 1.0]),
    }


def json_of(*command: str | Path) -> list[dict]:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one_round(runner: Path, points: list[dict], steps: int) -> tuple[dict, dict]:
    """Returns the planned and the measured step time of each point, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        of_results = ("--results", Path(folder) / "results")
        experiment = Path(folder) / "times.yaml"
        base = {
            "device": "cpu",
            "data": {"kind": "chess"},
            "train": {"steps": steps, "warmup_steps_excluded": 2},
        }
        experiment.write_text(json.dumps({"experiment": "times", "base": base, "points": points}))
        subprocess.run([runner, "calibrate", experiment, *of_results], check=True)
        plans = json_of(runner, "plan", experiment, "--format", "json", *of_results)
        subprocess.run([runner, experiment, "--quiet", *of_results], stdout=subprocess.DEVNULL)
        rows = json_of(runner, "report", "times", "--format", "json", *of_results)["rows"]
    return ({plan["point"]: plan["step_time_ms"] for plan in plans},
            {row["point"]: row["step_time_ms_median"] for row in rows})


def main() -> None:
    arguments = parse_arguments()
    random_ = random.Random(arguments.seed)
    points = [random_point(random_, i) for i in range(arguments.runs)]
    print(f"seed {arguments.seed}", flush=True)
    rounds = [one_round(arguments.runner.resolve(), points, arguments.steps)
              for _ in range(arguments.rounds)]
    errors = {kind: [] for kind in STRATEGIES[: arguments.runs]}
    spreads = []
    for name in (point["name"] for point in points):
        planned = statistics.median(plans[name] for plans, _ in rounds)
        times = [measured[name] for _, measured in rounds]
        measured = statistics.median(times)
        error = 100 * (planned / measured - 1)
        spread = 100 * (max(times) - min(times)) / measured
        errors[name.split()[1]].append(error)
        spreads.append(spread)
        print(f"{name:18} planned {planned:8.1f} ms, measured {measured:8.1f} ms, {error:+6.1f} %, "
              f"spread {spread:5.1f} %")
    for kind, of_kind in errors.items():
        sizes = sorted(map(abs, of_kind))
        print(f"{kind}: {len(sizes)} runs, median error {statistics.median(sizes):.1f} %, "
              f"90 % of them within {sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]:.1f} %, "
              f"worst {max(sizes):.1f} %, "
              f"mean {statistics.mean(of_kind):+.1f} %")
    print(f"of one run over the rounds: median spread {statistics.median(spreads):.1f} %")


if __name__ == "__main__":
    main()
