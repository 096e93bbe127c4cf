"""A rank allocates what the theory of its strategy says, except for activations.

P: bytes of all parameters in fp32. Gradients take P too, and AdamW's state 2 P.
N: number of ranks.
U: bytes of the largest unit.
"""

import numpy
import pytest
from trainer import train

HIDDEN, INTERMEDIATE, LAYERS, VOCABULARY = 128, 344, 8, 256
BLOCK = 4 * HIDDEN**2 + 3 * HIDDEN * INTERMEDIATE + 2 * HIDDEN
U = 4 * BLOCK
P = 4 * (LAYERS * BLOCK + 2 * VOCABULARY * HIDDEN + HIDDEN)
N = 4
ACTIVATIONS = 0.35 * U  # at most, for one sequence of 4 tokens and small buffers
LEAST_EXCESS = -0.1 * U

FULL_SHARD = {"kind": "fsdp", "ranks": N}


def sharded(ranks, prefetch=1):
    """Returns the bytes at the peak, near the end of backward: shards of parameters, state and
    gradients (without gradients of the gathered units), 1 + prefetch gathered units, and two whole
    gradients."""
    return 4 * P / ranks - (1 + prefetch) * U / ranks + (1 + prefetch) * U + 2 * U


EXPECTED = {
    "single": ({"kind": "single", "ranks": 1}, False, 4 * P),
    "ddp": ({"kind": "ddp", "ranks": N}, False, 4 * P),
    "no_shard": (FULL_SHARD | {"sharding": "no_shard"}, False, 4 * P),
    "full_shard": (FULL_SHARD, False, sharded(N)),
    # The peak is early in backward: all units but one are gathered, and there are two whole
    # gradients and the shard of one.
    "shard_grad_op": (
        FULL_SHARD | {"sharding": "shard_grad_op"}, False, 3 * P / N + P + U + U / N
    ),
    "hybrid_shard": (
        FULL_SHARD | {"sharding": "hybrid_shard", "shard_group_size": 2}, False, sharded(2)
    ),
    "no prefetch": (FULL_SHARD | {"prefetch": 0}, False, sharded(N, 0)),
    "prefetch 3": (FULL_SHARD | {"prefetch": 3}, False, sharded(N, 3)),
    # Two gradient shards: one is being reduced, one is being stepped.
    "in_backward": (FULL_SHARD, True, 3 * P / N + 4 * U + 2 * U / N),
    "ddp in_backward": ({"kind": "ddp", "ranks": N}, True, 3 * P + 2 * U),
    # A third gradient shard is being copied to the host.
    "offload optimizer": (FULL_SHARD | {"offload": "optimizer"}, False, P / N + 4 * U + 3 * U / N),
    "offload parameters": (FULL_SHARD | {"offload": "parameters"}, False, 4 * U + 3 * U / N),
}


@pytest.fixture(scope="module")
def tokens_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("tokens") / "tokens.npy"
    numpy.save(file, numpy.arange(64 * 5, dtype=numpy.int32).reshape(64, 5) % VOCABULARY)
    return file


def allocated_bytes(trainer, tokens_file, folder, strategy, in_backward):
    """Returns the peak of a step, on the rank with the highest peak."""
    spec = {
        "model": {"config": {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE,
                             "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCABULARY}},
        "data": {"kind": "tokens", "train": str(tokens_file), "sequence_length": 4},
        "strategy": strategy,
        "batch": {"size_per_rank": 1},
        "optimizer": {"in_backward": in_backward},
        "train": {"steps": 3},
        "device": "cpu",
        "threads_per_rank": 1,
    }
    run = train(trainer, spec, folder)
    return max(rank[-1]["memory_allocated_bytes_max"] for rank in run.steps)


@pytest.mark.parametrize("name", EXPECTED)
def test_peak_is_what_theory_says(trainer, tokens_file, tmp_path, name):
    strategy, in_backward, theory = EXPECTED[name]
    allocated = allocated_bytes(trainer, tokens_file, tmp_path, strategy, in_backward)
    excess = allocated - theory
    shown = f"{allocated:,} bytes, theory {theory:,.0f}, U {U:,}, excess {excess / U:.2f} U"
    assert LEAST_EXCESS <= excess <= ACTIVATIONS, shown


def test_theory_tells_the_strategies_apart():
    """From most to least memory, the ranges that pass do not overlap."""

    def is_above(more, less):
        least, most = EXPECTED[more][2] + LEAST_EXCESS, EXPECTED[less][2] + ACTIVATIONS
        return least > 1.05 * most

    order = ["ddp", "hybrid_shard", "full_shard", "in_backward", "offload optimizer",
             "offload parameters"]
    assert all(map(is_above, order, order[1:]))
    assert is_above("shard_grad_op", "full_shard")
    assert is_above("ddp", "ddp in_backward")
