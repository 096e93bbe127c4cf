"""Every way to shard, wrap, gather ahead and step has the losses of transformers under PyTorch."""

from agreement import assert_close, assert_ranks_agree
from checkpoints import STEPS
from cover import pairwise_product
from test_against_transformers import TOLERANCE, Case
from reference import CLIP_NORM
from trainer import train

OFFLOADS = ["none", "optimizer", "parameters"]
SHARDINGS = ["full_shard", "shard_grad_op", "no_shard", "hybrid_shard"]
WRAPS = ["none", "transformer_block", {"blocks": 2}, {"min_parameters": 100}, {"min_parameters": 40000}]


def check(trainer, reference, spec, folder):
    run = train(trainer, spec, folder)
    assert_ranks_agree(run)
    assert_close("loss", reference.losses, run.losses(), TOLERANCE)
    assert len(run.losses()) == STEPS


def fsdp_spec(checkpoint, tokens, ranks, accumulation=1, clip=False, checkpoint_every=0, **strategy):
    case = Case("fsdp", strategy.pop("offload", "none"), ranks, accumulation, checkpoint_every,
                strategy.pop("accumulate", "sharded"), clip)
    spec = case.spec(checkpoint, tokens)
    if strategy.get("sharding") == "hybrid_shard":
        strategy["shard_group_size"] = 2
    spec["strategy"] |= strategy
    return spec


@pairwise_product(sharding=SHARDINGS, offload=OFFLOADS, accumulation=[1, 2], ranks=[2, 4])
def test_sharding(trainer, sharding, offload, accumulation, ranks, checkpoints, tokens,
                  reference_for, tmp_path):
    spec = fsdp_spec(checkpoints["plain"], tokens, ranks, accumulation, sharding=sharding,
                     offload=offload)
    check(trainer, reference_for("plain"), spec, tmp_path)


@pairwise_product(sharding=SHARDINGS, accumulate=["sharded", "unsharded"])
def test_sharding_with_clipping(trainer, sharding, accumulate, checkpoints, tokens, reference_for,
                                tmp_path):
    spec = fsdp_spec(checkpoints["plain"], tokens, 4, 2, clip=True, sharding=sharding,
                     accumulate=accumulate)
    check(trainer, reference_for("plain", clip_norm=CLIP_NORM), spec, tmp_path)


@pairwise_product(wrap=WRAPS, variant=["plain", "tied"], ranks=[2, 4])
def test_wrap(trainer, wrap, variant, ranks, checkpoints, tokens, reference_for, tmp_path):
    spec = fsdp_spec(checkpoints[variant], tokens, ranks, checkpoint_every=2, wrap=wrap)
    check(trainer, reference_for(variant), spec, tmp_path)


@pairwise_product(prefetch=[0, 1, 2, 9], limit=[True, False], ranks=[2, 4])
def test_prefetch(trainer, prefetch, limit, ranks, checkpoints, tokens, reference_for, tmp_path):
    spec = fsdp_spec(checkpoints["plain"], tokens, ranks, prefetch=prefetch,
                     limit_all_gathers=limit)
    check(trainer, reference_for("plain"), spec, tmp_path)


@pairwise_product(kind=["single", "ddp", "fsdp"], offload=OFFLOADS, accumulation=[1, 2])
def test_step_in_backward(trainer, kind, offload, accumulation, checkpoints, tokens, reference_for,
                          tmp_path):
    case = Case(kind, offload, 1 if kind == "single" else 2, accumulation)
    spec = case.spec(checkpoints["tied"], tokens)
    spec["optimizer"]["in_backward"] = True
    check(trainer, reference_for("tied"), spec, tmp_path)
