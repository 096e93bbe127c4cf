#!/usr/bin/env python3
"""Measures the cost of the waiting policy of OpenMP's threads, on an idle host and on a busy one.
Run by hand, on a host that is otherwise idle:

    .venv/bin/python tests/benchmark/waiting_threads.py --trainer build/release/fsdp-train

One rank trains with a thread per core. Its step time is measured with the policy that the trainer
chooses (`chosen`), and with libgomp's default (`libgomp`) or other numbers of spins (--spins). Each
policy is measured on an idle host, and beside one process that keeps a core busy. The runs are
interleaved. Figures are medians of the runs' medians. Ratios compare neighbouring runs: `chosen` to
`libgomp` on the idle host, and busy to idle for each policy.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import measure, step_parser_of, write_inputs

SPINS_OF_LIBGOMP = 300_000  # libgomp/env.c, if no variable sets it
VARIABLE = "GOMP_SPINCOUNT"


@contextlib.contextmanager
def busy_cores(count: int):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def step_time_ms(trainer: Path, spec: dict, spins: int | None, busy: int, warmup: int) -> float:
    os.environ.pop(VARIABLE, None)
    if spins is not None:
        os.environ[VARIABLE] = str(spins)
    with busy_cores(busy), tempfile.TemporaryDirectory() as folder:
        run = measure(trainer, spec, Path(folder) / "run", threads=os.cpu_count())
    return statistics.median(run.figures("step", "step_time_ms")[warmup:])


def main() -> None:
    parser = step_parser_of(__doc__)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--spins", type=int, nargs="*", default=[], help="more policies")
    arguments = parser.parse_args()
    os.environ.pop("OMP_WAIT_POLICY", None)
    policies = {"chosen": None, "libgomp": SPINS_OF_LIBGOMP, **{f"{spins} spins": spins for spins in arguments.spins}}
    times = {(name, busy): [] for name in policies for busy in arguments.busy}
    with tempfile.TemporaryDirectory() as folder:
        spec = write_inputs(Path(folder), arguments.steps * 4, arguments.sequence_length, arguments.model)
        spec |= {"batch": {"size_per_rank": 4}, "train": {"steps": arguments.steps},
                 "strategy": {"kind": "single", "ranks": 1}, "threads_per_rank": os.cpu_count()}
        for _ in range(arguments.rounds):
            for busy in arguments.busy:
                for name, spins in policies.items():
                    time_ms = step_time_ms(arguments.trainer.resolve(), spec, spins, busy, arguments.warmup)
                    times[name, busy].append(time_ms)
    print(f"{arguments.model}, 4 x {arguments.sequence_length} tokens, {os.cpu_count()} threads, {arguments.rounds} rounds")
    for name in policies:
        for busy in arguments.busy:
            measured = times[name, busy]
            line = f"{name:12} beside {busy} busy: {statistics.median(measured):8.1f} ms ({min(measured):.1f} to {max(measured):.1f})"
            if busy:
                line += f", x{ratio(measured, times[name, 0]):.2f} of idle"
            elif name != "libgomp":
                line += f", x{ratio(measured, times['libgomp', busy]):.3f} of libgomp's"
            print(line)


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(our / their for our, their in zip(ours, theirs))


if __name__ == "__main__":
    main()
