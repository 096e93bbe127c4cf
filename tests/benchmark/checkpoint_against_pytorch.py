#!/usr/bin/env python3
"""Compares fsdp-train's sharded checkpoints with torch.distributed.checkpoint (DCP) of FSDP2: the
time to save one and to resume from it. Run by hand, on two idle cores:

    .venv/bin/python tests/benchmark/checkpoint_against_pytorch.py \\
        --trainer build/release/fsdp-train

Both sides have two ranks, fp32 weights and AdamW's state, and the same model, folder and disk. They
run in turns (PyTorch, trainer, PyTorch, trainer, ...), and figures are medians. A run saves after
every 8 steps. Another run resumes from the last checkpoint. Its loss must be the same on both
sides.

Save: the time from the end of a step until the checkpoint is complete. For PyTorch this is
get_state_dict and dcp.save. DCP's FileSystemWriter syncs each file (sync_files, on by default) and
renames the metadata last. The trainer syncs each file and the folders, and renames the folder last.

Training stands still: the time from the end of a step until rank 0 begins the next step. The
trainer continues to train while files are synced, so these steps are part of its save. PyTorch
stands still for its whole save.

Load: for PyTorch this is only get_state_dict, dcp.load and set_state_dict, of a model that already
has its initial weights. The trainer loads while it makes its shards. Its figure is the whole time
from the start of its processes until all ranks are about to begin a step, which is more than
loading. This start-up time is also printed for PyTorch, where it includes importing torch, and for
runs that do not resume. Files are in the page cache on both sides, because they were just written.

Plain write: after each pair of runs, one process writes the bytes of the trainer's checkpoint to
one file and syncs it. This is the disk's own share of a save.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measurement import PYTORCH, Measurement, measure, median, of_kind, parser_of, write_inputs

SIDES = ("PyTorch", "trainer")


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (default 5)")
    parser.add_argument("--saves", type=int, default=3, help="checkpoints of a run (default 3)")
    parser.add_argument("--folder", type=Path, help="where to write (default: the temporary one)")
    return parser.parse_args()


STEPS_PER_SAVE = 8


def save_and_resume(program: Path, spec: dict, steps: int, folder: Path) -> tuple[Measurement, Measurement]:
    """Measures a run that saves, and a run that trains one more step from its last checkpoint."""
    spec = spec | {"train": {"steps": steps + 1}}
    saving = spec | {"checkpoint": {"every_steps": STEPS_PER_SAVE, "state_dict": "sharded"}}
    first = measure(program, saving, folder / "first")
    return first, measure(program, spec | {"resume": str(last_checkpoint(steps, folder))}, folder / "second")


def last_checkpoint(steps: int, folder: Path) -> Path:
    return folder / "first" / "checkpoints" / f"step-{steps}"


def stops_ms(run: Measurement) -> list[float]:
    """Returns the time between the step before each checkpoint and the step after it."""
    steps = {event["step"]: event for event in of_kind("step", run.events)}
    saved = [step for step in steps if step % STEPS_PER_SAVE == 0]
    return [steps[step + 1]["time_unix_ms"] - steps[step + 1]["step_time_ms"] - steps[step]["time_unix_ms"]
            for step in saved]


def write_times_ms(run: Measurement) -> list[float]:
    return run.figures("checkpoint", "write_time_ms")


def plain_write_time_ms(file: Path, size_bytes: int) -> float:
    chunk = os.urandom(1 << 20)
    start = time.perf_counter()
    with file.open("wb", buffering=0) as out:
        for _ in range(size_bytes >> 20):
            out.write(chunk)
        os.fsync(out.fileno())
    elapsed_ms = (time.perf_counter() - start) * 1000
    file.unlink()
    return elapsed_ms


def print_row(name: str, pytorch_ms: float, trainer_ms: float) -> None:
    print(f"| {name} | {pytorch_ms:.0f} | {trainer_ms:.0f} | {trainer_ms / pytorch_ms:.2f} |")


def main() -> None:
    arguments = parse_arguments()
    programs = dict(zip(SIDES, (PYTORCH, arguments.trainer)))
    runs = {side: [] for side in SIDES}
    sizes, plain_ms = {}, []
    steps = arguments.saves * STEPS_PER_SAVE
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        root = Path(temporary)
        spec = write_inputs(root, rows=2 * (steps + 1), sequence_length=64)
        spec |= {"strategy": {"kind": "fsdp", "ranks": 2}, "batch": {"size_per_rank": 1}}
        for round_number in range(1, arguments.rounds + 1):
            for side, program in programs.items():
                folder = root / side
                os.sync()  # or our fsync would also write other programs' data
                first, second = save_and_resume(program, spec, steps, folder)
                sizes[side] = sum(file.stat().st_size for file in last_checkpoint(steps, folder).rglob("*")
                                  if file.is_file())
                shutil.rmtree(folder)
                runs[side].append((first, second))
                saved = ", ".join(f"{ms:.0f}" for ms in write_times_ms(first))
                stops = ", ".join(f"{ms:.0f}" for ms in stops_ms(first))
                print(
                    f"round {round_number}, {side}: saved in {saved} ms, stood still for {stops} ms, "
                    f"went on after {second.start_up_time_ms:.0f} ms, loss {second.losses[0]:.6f}",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
            want, have = (runs[side][-1][1].losses[0] for side in SIDES)
            if abs(have - want) > 1e-5 * want:
                raise SystemExit(f"losses after the resume: PyTorch {want}, trainer {have}")
            plain_ms.append(plain_write_time_ms(root / "plain", sizes["trainer"]))

    saving = {side: [first for first, _ in runs[side]] for side in SIDES}
    resumed = {side: [second for _, second in runs[side]] for side in SIDES}
    print(", ".join(f"{side} {sizes[side] / 1e6:.0f} MB" for side in SIDES))
    print("\n| | PyTorch ms | trainer ms | ratio |\n| --- | --: | --: | --: |")
    save = [median(saving[side], write_times_ms) for side in SIDES]
    print_row("save", *save)
    print_row("training stands still", *(median(saving[side], stops_ms) for side in SIDES))
    start_up = [median(resumed[side], lambda r: [r.start_up_time_ms]) for side in SIDES]
    load_ms = median(resumed["PyTorch"], lambda r: r.figures("run_started", "load_time_ms"))
    print_row("load: DCP alone, trainer's whole start", load_ms, start_up[1])
    print_row("start of a resumed run", *start_up)
    fresh = [median(saving[side], lambda r: [r.start_up_time_ms]) for side in SIDES]
    print_row("start of a fresh run", *fresh)
    print(f"\nplain write and fsync of as many bytes: {statistics.median(plain_ms):.0f} ms")


if __name__ == "__main__":
    main()
