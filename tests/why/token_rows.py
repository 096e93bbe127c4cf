"""The tokens that the runs of these tests train on."""

from pathlib import Path

import numpy


def write_tokens(folder: Path) -> None:
    rows = numpy.random.default_rng(1).integers(0, 512, (64, 65), dtype=numpy.int32)
    numpy.save(folder / "tokens.npy", rows)
