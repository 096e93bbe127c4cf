"""A part of a step is made slower, and `why` names it as the largest part of the difference."""

import csv
import io
import re

import numpy
import pytest
from hostile.event_model import MS_BY_PART

RANKS = 2
EXPERIMENT = """experiment: causes
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 3, hidden_size: 256, intermediate_size: 512, num_attention_heads: 4,
                 num_key_value_heads: 4, vocab_size: 512}
  data: {kind: tokens, train: tokens.npy, sequence_length: 64}
  strategy: {kind: fsdp, ranks: 2}
  batch.size_per_rank: 2
  train: {steps: 8, account_steps: 5}
points:
  - {name: usual}
  - {name: slow, environment: [%s]}
"""


@pytest.fixture
def runs(call, trainer, slow_parts, tmp_path):
    """Returns a function that trains the usual and the slow run. It returns their figures, and the
    words of `why` on their times."""
    rows = numpy.random.default_rng(1).integers(0, 512, (64, 65), dtype=numpy.int32)
    numpy.save(tmp_path / "tokens.npy", rows)

    def train(part, time_ms, rank=None):
        variables = [f"LD_PRELOAD={slow_parts}", f"SLOW_PART={part}", f"SLOW_MS={time_ms}"]
        variables += [f"SLOW_RANK={rank}"] if rank is not None else []
        (tmp_path / "causes.yaml").write_text(EXPERIMENT % ", ".join(variables))
        call("causes.yaml", "--trainer", trainer)
        table = call("report", "--format", "csv", "--per-run").stdout
        usual, slow = csv.DictReader(io.StringIO(table))
        words = call("why", "slow", "usual", "--trainer", trainer).stdout
        return usual, slow, re.search(r"^([+-]\S+) ms a step = ([+-]\S+) ([^,]*)", words, re.MULTILINE)
    return train


def more(slow, usual, names):
    return sum(float(slow[name]) - float(usual[name]) for name in names)


@pytest.mark.parametrize("part, time_ms, words, columns", [
    ("optimizer", 100, "optimizer", ["optimizer_ms"]),
    ("products", 15, "products", ["products_forward_ms", "products_backward_ms"]),
    ("gather", 120, "all-gathers that nothing hides", ["exposed_all_gather_ms"]),
    ("reduce", 40, "reduce-scatters that nothing hides", ["exposed_reduce_scatter_ms"]),
    ("data", 250, "data", ["data_ms"]),
])
def test_a_slow_part_is_named(runs, part, time_ms, words, columns):
    usual, slow, said = runs(part, time_ms)
    assert said[3].startswith(words), said[0]
    assert more(slow, usual, columns) == pytest.approx(more(slow, usual, MS_BY_PART), rel=0.2)


@pytest.mark.parametrize("slow_rank", range(RANKS))
def test_a_part_that_is_slow_on_one_rank_is_named_with_the_rank(runs, slow_rank):
    usual, slow, said = runs("products", 15, slow_rank)
    assert slow["account_rank"] == str(slow_rank)
    assert said[3].startswith(f"products (on rank {slow_rank} alone)"), said[0]
    assert float(slow["slowest_rank_extra_ms"]) == pytest.approx(more(slow, usual, MS_BY_PART), rel=0.2)
