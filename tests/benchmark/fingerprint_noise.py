#!/usr/bin/env python3
"""Compares the fingerprints of random pairs of runs that compute the same in another order, with `fsdp-run diverge`.
It must name no difference: what it allows comes from these pairs. Run by hand:

    .venv/bin/python tests/benchmark/fingerprint_noise.py --trainer build/release/fsdp-train \\
        --runner build/release/fsdp-run --pairs 125
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("parity", ".")]
from loss_noise import PRECISIONS, TOTAL_BATCH, model_and_optimizer, strategy
from trainer import start, wait_until_well_ended

ALONE = {"strategy": {"kind": "single", "ranks": 1}, "batch": {"size_per_rank": TOTAL_BATCH}}


def with_fingerprints(spec: dict, draw: random.Random, steps: int) -> dict:
    recorded = draw.choice([["1-3"], ["1-2", str(steps)], ["every 2"]])
    spec["train"] |= {"fingerprint_steps": recorded}
    if draw.random() < 0.5:
        spec["optimizer"] |= {"gradient_clip_norm": 10 ** draw.uniform(-2, 0.5)}
    if draw.random() < 0.3:
        spec["optimizer"] |= {"weight_decay": 0.1}
    return spec


def answer(arguments: argparse.Namespace, precision: str, number: int) -> str:
    draw = random.Random(f"{arguments.seed} {precision} {number}")
    same = with_fingerprints(model_and_optimizer(draw, precision, arguments.steps), draw, arguments.steps)
    if draw.random() < 0.25:  # of a large model, without its size
        same["model"]["config"] |= {"tie_word_embeddings": True}
    other = strategy(draw)
    if draw.random() < 0.2:
        other["strategy"] |= {"offload": draw.choice(["optimizer", "parameters"])}
        other["strategy"] |= {} if other["strategy"]["kind"] == "fsdp" else {"offload": "optimizer"}
    with tempfile.TemporaryDirectory() as folder:
        for name, way in (("plain", ALONE), ("other", other)):
            run = Path(folder) / name
            wait_until_well_ended(start(arguments.trainer, same | way, run), run)
        places = [str(Path(folder) / name / "attempt-1" / "fingerprints") for name in ("plain", "other")]
        ended = subprocess.run([arguments.runner, "diverge", *places], capture_output=True, text=True)
    text = (ended.stdout + ended.stderr).replace(folder, "")
    return "" if "do not differ" in text or "cannot be judged" in text else f"{precision} {number} {same} {other}\n{text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=Path, required=True)
    parser.add_argument("--runner", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=25, help="of each precision (default 25)")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    alarms = 0
    for number in range(arguments.first, arguments.first + arguments.pairs):
        for precision in PRECISIONS:
            if text := answer(arguments, precision, number):
                alarms += 1
                print(text, flush=True)
        print(f"{alarms} of the first {(number - arguments.first + 1) * len(PRECISIONS)}", flush=True)
    print(f"{alarms} of {arguments.pairs * len(PRECISIONS)} pairs differ")


if __name__ == "__main__":
    main()
