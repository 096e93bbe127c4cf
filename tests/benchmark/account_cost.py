#!/usr/bin/env python3
"""Measures what it costs to split steps into parts, and to trace them. This does not depend on the width of a model, so
it is measured with a narrow one that has as many blocks: a run splits its first steps and not its last ones. The
cost of a step is then compared with a step of the model itself. Run by hand, on idle cores:

    .venv/bin/python tests/benchmark/account_cost.py --trainer build/release/fsdp-train
    ... --model 134M --ranks 2
"""

import statistics
import tempfile
from pathlib import Path

from measurement import MODELS, measure, step_parser_of, write_inputs

TRACED = 10  # the most steps that train.trace_steps allows
MODES = {"split": {"account_steps": 100}, "traced": {"account_steps": 0, "trace_steps": TRACED}}
NARROW = {"hidden_size": 96, "intermediate_size": 96, "vocab_size": 512}


def step_times_ms(trainer: Path, spec: dict, keys: dict, steps: int, warmup: int) -> list[float]:
    train = {"steps": steps, "warmup_steps_excluded": warmup} | keys
    with tempfile.TemporaryDirectory() as folder:
        run = measure(trainer, spec | {"train": train}, Path(folder) / "run")
    return run.figures("step", "step_time_ms")[warmup:]


def cost_ms(trainer: Path, spec: dict, keys: dict, warmup: int) -> float:
    """Returns how much longer the first steps take than as many steps after them."""
    count = max(keys.values())
    times = step_times_ms(trainer, spec, keys, warmup + 2 * count, warmup)
    return statistics.median(times[:count]) - statistics.median(times[count:])


def main() -> None:
    parser = step_parser_of(__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    trainer = arguments.trainer.resolve()
    kind = "fsdp" if arguments.ranks > 1 else "single"
    keys = {"batch": {"size_per_rank": 4}, "threads_per_rank": 1, "strategy": {"kind": kind, "ranks": arguments.ranks}}
    rows = 4 * 210 * arguments.ranks
    MODELS["narrow"] = MODELS[arguments.model] | NARROW
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as narrow_folder:
        spec = write_inputs(Path(folder), rows, arguments.sequence_length, arguments.model) | keys
        step_ms = statistics.median(
            step_times_ms(trainer, spec, {"account_steps": 0}, arguments.steps, arguments.warmup))
        print(f"{arguments.model}, 4 x {arguments.sequence_length} tokens, {arguments.ranks} ranks: {step_ms:.1f} ms")
        narrow = write_inputs(Path(narrow_folder), rows, 8, "narrow") | keys
        for mode, of_mode in MODES.items():
            costs = [cost_ms(trainer, narrow, of_mode, arguments.warmup) for _ in range(arguments.rounds)]
            cost = statistics.median(costs)
            print(f"{mode}: {cost:.3f} ms ({min(costs):.3f} to {max(costs):.3f}), {cost / step_ms:.2%} of a step")


if __name__ == "__main__":
    main()
