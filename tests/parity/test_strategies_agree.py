"""FSDP, DDP and single have equal losses at the same total batch. There is no reference here,
because weights are random. Data are shuffled chess games of unequal length. So ranks and
micro-batches have different numbers of labels, and a mean of means would be wrong."""

import pytest
from agreement import assert_close, assert_ranks_agree
from few_games import few_games
from trainer import train

TOTAL_BATCH = 12
STEPS = 10
SEQUENCE_LENGTH = 192

SINGLE = {"kind": "single", "ranks": 1}

# (strategy, sequences per rank and micro-batch, clipping)
OTHERS = [
    ({"kind": "single", "ranks": 1}, 3, False),
    ({"kind": "single", "ranks": 1, "offload": "optimizer"}, 6, True),
    ({"kind": "ddp", "ranks": 2}, 6, False),
    ({"kind": "ddp", "ranks": 2}, 1, True),
    ({"kind": "ddp", "ranks": 3, "offload": "optimizer"}, 2, True),
    ({"kind": "ddp", "ranks": 4}, 3, True),
    ({"kind": "fsdp", "ranks": 2}, 6, True),
    ({"kind": "fsdp", "ranks": 3}, 1, False),
    ({"kind": "fsdp", "ranks": 3, "accumulate": "unsharded"}, 2, True),
    ({"kind": "fsdp", "ranks": 4, "offload": "optimizer"}, 3, False),
    ({"kind": "fsdp", "ranks": 4, "offload": "optimizer"}, 1, True),
]


def spec_for(strategy: dict, size_per_rank: int, clip: bool) -> dict:
    optimizer = {"learning_rate": 3e-3, "weight_decay": 0.1, "epsilon": 1e-4}
    if clip:
        optimizer["gradient_clip_norm"] = 0.33
    return {
        "model": {"config": {"num_hidden_layers": 2, "hidden_size": 50, "intermediate_size": 91,
                             "num_attention_heads": 5, "num_key_value_heads": 5, "vocab_size": 1024}},
        "data": {"kind": "chess", "train": str(few_games()), "sequence_length": SEQUENCE_LENGTH, "shuffle": True},
        "strategy": strategy,
        "batch": {"size_per_rank": size_per_rank, "total": TOTAL_BATCH},
        "optimizer": optimizer,
        "train": {"steps": STEPS, "seed": 5},
        "device": "cpu",
        "threads_per_rank": 1,
    }


@pytest.fixture(scope="module")
def single(trainer, tmp_path_factory):
    """clipping -> run of one process that reads the whole batch at once."""
    return {clip: train(trainer, spec_for(SINGLE, TOTAL_BATCH, clip),
                        tmp_path_factory.mktemp("single") / "run") for clip in (False, True)}


def name_of(value) -> str:
    if isinstance(value, dict):
        return "-".join(str(part) for part in value.values())
    return str(value)


@pytest.mark.parametrize("strategy, size_per_rank, clip", OTHERS, ids=name_of)
def test_same_total_batch_same_loss(trainer, strategy, size_per_rank, clip, single, tmp_path):
    run = train(trainer, spec_for(strategy, size_per_rank, clip), tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", single[clip].losses(), run.losses(), 1e-5)
    if clip:
        assert_close("gradient_norm", single[clip].gradient_norms(), run.gradient_norms(), 1e-5)


def test_single_run_is_worth_comparing(single):
    """Batches have different amounts of padding. The loss falls, and clipping changes it."""
    labels = [step["label_count"] for step in single[False].steps[0]]
    assert max(labels) < TOTAL_BATCH * SEQUENCE_LENGTH
    assert len(set(labels)) > 1
    losses = single[False].losses()
    assert losses[-1] < losses[0] - 0.1
    assert losses[-1] != single[True].losses()[-1]
