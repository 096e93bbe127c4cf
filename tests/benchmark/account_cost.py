#!/usr/bin/env python3
"""Compares steps whose time is split into parts with steps whose time is not. Usually only
`train.account_steps` steps of a run are split (default 3). Run by hand, on idle cores:

    .venv/bin/python tests/benchmark/account_cost.py --trainer build/release/fsdp-train
    ... --model 134M --sequence-length 128
"""

import statistics
import tempfile
from pathlib import Path

from measurement import measure, step_parser_of, write_inputs


def step_time_ms(trainer: Path, spec: dict, account_steps: int, warmup: int) -> float:
    spec = spec | {"train": spec["train"] | {"account_steps": account_steps}}
    with tempfile.TemporaryDirectory() as folder:
        run = measure(trainer, spec, Path(folder) / "run")
    return statistics.median(run.figures("step", "step_time_ms")[warmup:])


def main() -> None:
    parser = step_parser_of(__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    times = {0: [], arguments.steps: []}
    with tempfile.TemporaryDirectory() as folder:
        rows = arguments.steps * 4 * arguments.ranks
        spec = write_inputs(Path(folder), rows, arguments.sequence_length, arguments.model)
        kind = "fsdp" if arguments.ranks > 1 else "single"
        spec |= {"batch": {"size_per_rank": 4}, "threads_per_rank": 1,
                 "strategy": {"kind": kind, "ranks": arguments.ranks},
                 "train": {"steps": arguments.steps, "warmup_steps_excluded": arguments.warmup}}
        for _ in range(arguments.rounds):
            for account_steps in times:
                times[account_steps].append(
                    step_time_ms(arguments.trainer.resolve(), spec, account_steps, arguments.warmup))
    without, split = map(statistics.median, times.values())
    ratios = sorted(one / other for one, other in zip(times[arguments.steps], times[0], strict=True))
    print(f"{arguments.model}, 4 x {arguments.sequence_length} tokens, {arguments.ranks} ranks: {without:.1f} ms, "
          f"split {split:.1f} ms; ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f})")


if __name__ == "__main__":
    main()
