"""Mixed precision computes what FSDP2's MixedPrecisionPolicy computes, and stays near fp32."""

import pytest
from agreement import assert_close, assert_ranks_agree
from checkpoints import STEPS
from cover import pairwise_product
from reference import CLIP_NORM
from test_against_transformers import Case
from trainer import train, train_under_pytorch

TO_FP32 = 2e-2
TO_FSDP2 = 5e-3
# fp32 agrees with the reference to 2e-7. Each precision here differs from it by 8e-6 or more.
ANOTHER = 1e-6

PRECISIONS = {
    "bf16_mixed": "bf16_mixed",
    "fp16_mixed": "fp16_mixed",
    "bf16_reduced_in_bf16": {"parameters": "bf16", "reduction": "bf16"},
    "fp32_reduced_in_bf16": {"parameters": "fp32", "reduction": "bf16"},
}


def spec_of(checkpoints, tokens, precision, ranks=2):
    return Case("fsdp", ranks=ranks).spec(checkpoints["plain"], tokens, precision=PRECISIONS[precision])


@pytest.fixture(scope="module")
def fsdp2(checkpoints, tokens, tmp_path_factory):
    """precision -> its losses under PyTorch, on two ranks."""
    specs = [spec_of(checkpoints, tokens, precision) for precision in PRECISIONS]
    runs = train_under_pytorch(specs, tmp_path_factory.mktemp("fsdp2"))
    return dict(zip(PRECISIONS, [run.losses() for run in runs]))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_as_fsdp2(trainer, fsdp2, precision, ranks, checkpoints, tokens, reference_for, tmp_path):
    run = train(trainer, spec_of(checkpoints, tokens, precision, ranks), tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", fsdp2[precision], run.losses(), TO_FSDP2)
    assert_close("loss", reference_for("plain").losses, run.losses(), TO_FP32)
    with pytest.raises(AssertionError):  # proves that the precision differs
        assert_close("loss", reference_for("plain").losses, run.losses(), ANOTHER)


STRATEGIES = [
    Case("single"),
    Case("single", accumulation=2, clip=True),
    Case("single", "parameters"),
    Case("ddp", ranks=2, accumulation=2, clip=True),
    Case("ddp", "optimizer", ranks=4),
    Case("fsdp", ranks=2, accumulation=2, clip=True),
    Case("fsdp", ranks=4, accumulation=3, checkpoint_every=1, accumulate="unsharded", clip=True),
    Case("fsdp", "optimizer", ranks=3, accumulation=2, clip=True),
    Case("fsdp", "parameters", ranks=4),
]


@pairwise_product(case=STRATEGIES, precision=["bf16_mixed", "fp16_mixed", "bf16_reduced_in_bf16"])
def test_every_strategy(trainer, precision, case, checkpoints, tokens, reference_for, tmp_path):
    spec = case.spec(checkpoints["plain"], tokens, precision=PRECISIONS[precision])
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    reference = reference_for("plain", CLIP_NORM if case.clip else None)
    assert_close("loss", reference.losses, run.losses(), TO_FP32)
    if case.clip:  # losses hardly show a gradient that is a third too small
        norms = run.gradient_norms()
        assert_close("gradient_norm", reference.gradient_norms, norms, TO_FP32)


@pytest.mark.parametrize("sharding", ["shard_grad_op", "no_shard", "hybrid_shard"])
@pytest.mark.parametrize("precision", ["bf16_mixed", "bf16_reduced_in_bf16"])
def test_every_sharding(trainer, precision, sharding, checkpoints, tokens, reference_for, tmp_path):
    spec = Case("fsdp", ranks=4, accumulation=2).spec(checkpoints["plain"], tokens,
                                                      precision=PRECISIONS[precision])
    spec["strategy"] |= {"sharding": sharding, "shard_group_size": 2}
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", reference_for("plain").losses, run.losses(), TO_FP32)


def test_buffers_are_rounded(trainer, checkpoints, tokens, reference_for, tmp_path):
    """Only the rotary tables are in bf16, so only angles lose digits."""
    spec = Case("single").spec(checkpoints["plain"], tokens, precision={"buffers": "bf16"})
    run = train(trainer, spec, tmp_path)
    assert_close("loss", reference_for("plain").losses, run.losses(), TO_FP32)
    with pytest.raises(AssertionError):
        assert_close("loss", reference_for("plain").losses, run.losses(), ANOTHER)


def test_float16_scales_the_loss(trainer, large_gradients, tokens, tmp_path):
    """The first scale overflows float16 gradients. Steps are skipped and counted, and the scale is
    halved, until gradients fit."""
    spec = Case("fsdp", ranks=2).spec(large_gradients, tokens, precision="fp16_mixed")
    run = train(trainer, spec, tmp_path)
    scales = [step["gradient_scale"] for step in run.steps[0]]
    skipped = [step["skipped"] for step in run.steps[0]]
    for step in range(STEPS - 1):
        assert scales[step + 1] == scales[step] * (0.5 if skipped[step] else 1)
    assert scales[0] == 65536
    assert skipped[0] and not skipped[-1]
