"""The sweeps that are disturbed. The stub trainer reports the same figures each time."""
from dataclasses import dataclass

import numpy

STEPS = 6
BASE = f"""base:
  device: cpu
  resume: auto
  memory_limit_gib: 1
  train: {{steps: {STEPS}, warmup_steps_excluded: 2}}
  data: {{kind: tokens, train: tokens.npy, sequence_length: 16}}
  evaluation: {{every_steps: 3, fraction: 0.1}}
  checkpoint: {{every_steps: 2}}
points:
"""
ONE_RANK = "{name: first, train.seed: 1}"
TWO_RANKS = "{name: second, strategy: {kind: ddp, ranks: 2}}"
THIRD = "{name: third, train.seed: 3}"
FAILS = "{name: fails, train.seed: 4}"
DOUBLED = "{double: {batch.size_per_rank: {from: 1, refine: true}}}"

# name of a file -> (experiment, points, sweep)
FILES = {
    "local": ("local", [ONE_RANK, FAILS, TWO_RANKS], ""),
    "parallel": ("parallel", [ONE_RANK, TWO_RANKS, THIRD], ""),
    "doubled": ("doubled", [ONE_RANK], DOUBLED),
    "repeated": ("repeated", [ONE_RANK, TWO_RANKS], "{repeats: 2}"),
    "edited": ("repeated", [ONE_RANK, THIRD], "{repeats: 2}"),
    "one": ("one", [ONE_RANK, TWO_RANKS], ""),
    "other": ("other", [TWO_RANKS, THIRD], ""),
    "killed": ("killed", [ONE_RANK, TWO_RANKS, THIRD], ""),
}


@dataclass(frozen=True)
class Sweep:
    """The stages follow one another. The experiments of a stage run at the same time."""
    stages: tuple
    options: tuple = ()
    rules: str = ""  # STUB_RULES; {gate} is a file
    is_killed: bool = False  # in the first stage, while a run waits for the gate
    status: int = 0

    @property
    def name(self):
        return self.stages[0][0]


SWEEPS = (
    Sweep((("local",),), rules="point=fails,step=4,fail=no luck", status=1),
    Sweep((("parallel",),), ("--max-parallel", "2")),
    Sweep((("doubled",),), rules="batch_above=5,step=2,out_of_memory=no room"),
    Sweep((("repeated",), ("edited",))),
    Sweep((("one", "other"),), ("--share",)),
    Sweep((("killed",), ("killed",)), rules="point=second,step=4,await={gate}", is_killed=True),
)


def write_experiments(folder):
    numpy.save(folder / "tokens.npy", numpy.arange(64 * 17, dtype=numpy.int32).reshape(64, 17) % 64)
    for name, (experiment, points, sweep) in FILES.items():
        lines = "".join(f"  - {point}\n" for point in points)
        more = f"sweep: {sweep}\n" if sweep else ""
        (folder / f"{name}.yaml").write_text(f"experiment: {experiment}\n{BASE}{lines}{more}")
