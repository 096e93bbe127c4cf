#!/usr/bin/env python3
"""Compares steps whose time is split into parts, and steps that are traced, with steps that are neither. Usually only
`train.account_steps` steps of a run are split (default 3), and none is traced. Run by hand, on idle cores:

    .venv/bin/python tests/benchmark/account_cost.py --trainer build/release/fsdp-train
    ... --model 134M --sequence-length 128
"""

import statistics
import tempfile
from pathlib import Path

from measurement import measure, step_parser_of, write_inputs

TRACED = 10  # the most steps that train.trace_steps allows
MODES = {"without": {"account_steps": 0}, "split": {"account_steps": TRACED}, "traced": {"trace_steps": TRACED}}


def step_time_ms(trainer: Path, spec: dict, keys: dict, warmup: int) -> float:
    spec = spec | {"train": spec["train"] | keys}
    with tempfile.TemporaryDirectory() as folder:
        run = measure(trainer, spec, Path(folder) / "run")
    return statistics.median(run.figures("step", "step_time_ms")[warmup:warmup + TRACED])


def main() -> None:
    parser = step_parser_of(__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    times = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        spec = write_inputs(Path(folder), arguments.steps * 4 * arguments.ranks, arguments.sequence_length, arguments.model)
        kind = "fsdp" if arguments.ranks > 1 else "single"
        spec |= {"batch": {"size_per_rank": 4}, "threads_per_rank": 1,
                 "strategy": {"kind": kind, "ranks": arguments.ranks},
                 "train": {"steps": arguments.steps, "warmup_steps_excluded": arguments.warmup}}
        for _ in range(arguments.rounds):
            for mode, keys in MODES.items():
                times[mode].append(step_time_ms(arguments.trainer.resolve(), spec, keys, arguments.warmup))
    print(f"{arguments.model}, 4 x {arguments.sequence_length} tokens, {arguments.ranks} ranks: "
          f"{statistics.median(times['without']):.1f} ms")
    for mode in ("split", "traced"):
        ratios = sorted(one / other for one, other in zip(times[mode], times["without"], strict=True))
        print(f"{mode}: ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f})")


if __name__ == "__main__":
    main()
