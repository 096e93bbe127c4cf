"""Computes the logits of a run's untrained model, and compares them with expected ones."""

from dataclasses import dataclass
from pathlib import Path

import numpy
from trainer import start, wait_until_well_ended

@dataclass(frozen=True)
class Logits:
    """[labels, vocabulary] of the first batch, as training and as evaluation compute them."""

    training: numpy.ndarray
    evaluation: numpy.ndarray


def first_logits(writer: Path, spec: dict, data: Path, folder: Path) -> Logits:
    """Runs one step with learning rate 0, and an evaluation on the same rows, the first of `data`.
    `writer` is the program of logits.cpp."""
    ranks = spec["strategy"]["ranks"]
    size_per_rank = spec["batch"]["total"] // ranks
    spec = spec | {
        "optimizer": spec["optimizer"] | {"learning_rate": 0.0},
        "train": spec["train"] | {"steps": 1},
        "evaluation": {
            "every_steps": 1, "data": str(data), "batches": 1, "size_per_rank": size_per_rank
        },
    }
    wait_until_well_ended(start(writer, spec, folder), folder)

    def of_all_ranks(mode: str) -> numpy.ndarray:
        files = [folder / f"attempt-1/{mode}.rank{rank}.f32" for rank in range(ranks)]
        return numpy.concatenate([numpy.fromfile(file, numpy.float32) for file in files])

    return Logits(of_all_ranks("training"), of_all_ranks("evaluation"))


def assert_same_logits(expected: numpy.ndarray, got: numpy.ndarray, is_label=slice(None),
                       tolerance: float = 1e-4) -> None:
    """`expected` is [labels, vocabulary], `got` is flat. Compares only rows in `is_label`. The
    tolerance is absolute."""
    assert got.size == expected.size, f"{got.size} logits instead of {expected.size}"
    difference = numpy.abs(got.reshape(expected.shape) - expected)[is_label]
    row, token = numpy.unravel_index(difference.argmax(), difference.shape)
    largest = difference[row, token]
    assert largest <= tolerance, f"logits differ by {largest:.1e}, at label {row} token {token} the most"
