#!/usr/bin/env python3
"""Measures what fingerprints cost: every second step of a run records them. Prints the added time of such a step as a
part of a step, and of ten steps of which one records. Also prints the size of a rank's file. Run by hand, on idle
cores:

    .venv/bin/python tests/benchmark/fingerprint_cost.py --trainer build/release/fsdp-train
    ... --model 134M --ranks 2
"""

import statistics
import tempfile
from pathlib import Path

from measurement import measure, step_parser_of, write_inputs

ONE_IN = 10


def main() -> None:
    parser = step_parser_of(__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    kind = "fsdp" if arguments.ranks > 1 else "single"
    keys = {"batch": {"size_per_rank": 4}, "threads_per_rank": 1, "strategy": {"kind": kind, "ranks": arguments.ranks},
            "train": {"steps": arguments.steps, "warmup_steps_excluded": 0, "account_steps": 0,
                      "fingerprint_steps": ["every 2"]}}
    costs, plain = [], []
    with tempfile.TemporaryDirectory() as folder:
        rows = 4 * arguments.steps * arguments.ranks
        spec = write_inputs(Path(folder), rows, arguments.sequence_length, arguments.model) | keys
        for number in range(arguments.rounds):
            run = Path(folder) / f"run-{number}"
            times = measure(arguments.trainer.resolve(), spec, run).figures("step", "step_time_ms")[arguments.warmup:]
            recorded, others = times[1::2], times[0::2]
            plain.append(statistics.median(others))
            costs.append(statistics.median(recorded) - plain[-1])
        bytes_of_file = max(file.stat().st_size for file in run.glob("attempt-1/fingerprints/*"))
    cost = statistics.median(costs) / statistics.median(plain)
    print(f"{arguments.model}, 4 x {arguments.sequence_length} tokens, {arguments.ranks} ranks: a step takes "
          f"{statistics.median(plain):.1f} ms; with fingerprints {cost:.1%} more, one step in {ONE_IN} "
          f"{cost / ONE_IN:.1%}; a file has {bytes_of_file / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
