"""Mixed precision computes what FSDP2's MixedPrecisionPolicy computes, and stays near fp32. fp64 computes what
transformers computes in float64."""

import json
from pathlib import Path

import pytest
import torch
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


FP64 = [Case("ddp", ranks=2, clip=True), Case("fsdp", ranks=3, clip=True),
        Case("fsdp", "parameters", ranks=4, accumulation=2, checkpoint_every=1, clip=True)]


def recorded(trainer, case: Case, checkpoint: Path, tokens: Path, folder: Path) -> tuple[list[float], list[float]]:
    """Returns the losses and the gradient norms of a run in fp64. Events have them in fp32."""
    spec = case.spec(checkpoint, tokens, precision="fp64")
    spec["train"] |= {"fingerprint_steps": ["every 1"]}
    train(trainer, spec, folder)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        files = [folder / f"attempt-1/fingerprints/step-{step}.rank{rank}.jsonl" for rank in range(case.ranks)]
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()[1:-1]]
        losses.append(sum(line["sum"] for line in lines if line["of"] == "loss"))
        norms += {line["sum"] for line in lines if line["of"] == "gradient_norm"}
    return losses, norms


@pytest.mark.parametrize("variant", ["plain", "tied"])
def test_fp64_on_every_strategy(trainer, variant, checkpoints, tokens, reference_for, tmp_path):
    reference = reference_for(variant, CLIP_NORM, torch.float64)
    losses, norms = recorded(trainer, Case("single", accumulation=2, clip=True), checkpoints[variant], tokens,
                             tmp_path / "single")
    # transformers computes norms and rotary tables in fp32, whatever the model's dtype.
    assert_close("loss", reference.losses, losses, 1e-8)
    assert_close("gradient_norm", reference.gradient_norms, norms, 1e-7)
    for case in FP64:
        others = recorded(trainer, case, checkpoints[variant], tokens, tmp_path / str(case))
        assert_close("loss", losses, others[0], 1e-14)
        assert_close("gradient_norm", norms, others[1], 1e-13)
