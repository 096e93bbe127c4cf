"""fsdp-train computes what transformers computes, with every strategy."""

from dataclasses import dataclass
from itertools import chain, product

import pytest
import torch
from agreement import assert_close, assert_ranks_agree
from checkpoints import FAMILIES, SEQUENCE_LENGTH, STEPS, TOTAL_BATCH
from cover import pairwise
from reference import CLIP_NORM, OPTIMIZER
from trainer import train

TOLERANCE = 1e-5
BF16_TOLERANCE = 3e-3


@dataclass(frozen=True)
class Case:
    """One way to train. Only `clip` may change the losses."""

    kind: str
    offload: str = "none"
    ranks: int = 1
    accumulation: int = 1
    checkpoint_every: int = 0
    accumulate: str = "sharded"
    clip: bool = False

    def __str__(self) -> str:
        parts = [self.kind, f"{self.ranks}_ranks", f"accumulation_{self.accumulation}"]
        if self.offload != "none":
            parts.insert(1, "offload")
        if self.accumulate != "sharded":
            parts.append(self.accumulate)
        if self.checkpoint_every:
            parts.append(f"checkpoint_every_{self.checkpoint_every}")
        if self.clip:
            parts.append("clip")
        return "-".join(parts)

    def spec(self, source, tokens, **overrides) -> dict:
        optimizer = {"kind": "adamw", **OPTIMIZER}
        if self.clip:
            optimizer["gradient_clip_norm"] = CLIP_NORM
        return {
            "model": {"source": str(source)},
            "data": {"kind": "tokens", "train": str(tokens), "sequence_length": SEQUENCE_LENGTH, "shuffle": False},
            "strategy": {"kind": self.kind, "ranks": self.ranks, "offload": self.offload,
                         "accumulate": self.accumulate},
            "batch": {"size_per_rank": TOTAL_BATCH // self.ranks // self.accumulation, "total": TOTAL_BATCH},
            "activation_checkpointing": {"every": self.checkpoint_every},
            "optimizer": optimizer,
            "train": {"steps": STEPS, "seed": 1},
            "device": "cpu",
            "threads_per_rank": 1,
        } | overrides


DISTRIBUTED = list(product(["ddp", "fsdp"], ["none", "optimizer"], [2, 3, 4]))


def cases(*singly, many=()):
    """Runs each case of `singly`, and a pairwise cover of the groups in `many`."""
    return pytest.mark.parametrize("case", [*singly, *pairwise(chain(*many))], ids=str)


def check(trainer, case, reference, spec, folder):
    run = train(trainer, spec, folder)
    assert_ranks_agree(run)
    assert_close("loss", reference.losses, run.losses(), TOLERANCE)
    if case.clip:
        assert_close("gradient_norm", reference.gradient_norms, run.gradient_norms(), TOLERANCE)
    else:
        assert run.gradient_norms() == [None] * STEPS
    labels = [TOTAL_BATCH * SEQUENCE_LENGTH] * STEPS
    assert [step["label_count"] for step in run.steps[0]] == labels
    assert [step["step"] for step in run.steps[0]] == list(range(1, STEPS + 1))


SINGLE, DDP_2, FSDP_3 = Case("single"), Case("ddp", ranks=2), Case("fsdp", ranks=3)
OFFLOADS = ["none", "optimizer"]
OF_A_FAMILY = [SINGLE, Case("fsdp", ranks=3, checkpoint_every=1)]
OF_A_TIED_FAMILY = [*OF_A_FAMILY, Case("ddp", ranks=2, accumulation=2, clip=True), Case("fsdp", "parameters", ranks=2)]

# name -> the checkpoint's variant, cases that all run, and cases of which a pairwise cover runs
LOSSES = {
    "plain": ("plain", [], [
        *(Case("single", o, 1, a, c) for o, a, c in product(OFFLOADS, [1, 2], [0, 1])),
        *(Case(k, o, r, a, c) for (k, o, r), a, c in product(DISTRIBUTED, [1, 2], [0, 1])),
        *(Case(k, o, r, 2, 2) for k, o, r in DISTRIBUTED if r == 3)]),
    "clipping": ("plain", [], [
        *(Case("single", o, 1, a, clip=True) for o, a in product(OFFLOADS, [1, 2])),
        *(Case(k, o, r, 1, 1, clip=True) for k, o, r in DISTRIBUTED),
        *(Case(k, o, r, 2, 0, clip=True) for k, o, r in DISTRIBUTED if r != 2)]),
    "unsharded accumulation": ("plain", [
        Case("fsdp", o, r, a, c, "unsharded", clip) for o in OFFLOADS
        for r, a, c, clip in [(2, 2, 1, False), (3, 4, 0, True), (4, 2, 0, False), (3, 1, 0, False)]], []),
    "grouped_query": ("grouped_query", [SINGLE, Case("single", "optimizer", 1, 2, 1, clip=True)], [
        *(Case(k, o, r, 2, 1) for k, o, r in DISTRIBUTED),
        *(Case(k, o, 3, 1, 0, clip=True) for k, o, r in DISTRIBUTED if r == 3)]),
    # Heads are wider than hidden_size / num_attention_heads.
    "wide_heads": ("wide_heads", [SINGLE, Case("ddp", ranks=2, clip=True), OF_A_FAMILY[1]], []),
    # The shared weight's gradient is complete only after both of its uses, in every micro-batch.
    "tied": ("tied", [SINGLE, Case("single", "optimizer", 1, 2, 1, clip=True)], [
        *(Case(k, o, r, a, c) for (k, o, r), (a, c) in product(DISTRIBUTED, [(1, 0), (2, 1)])),
        *(Case("fsdp", o, 3, 2, 0, "unsharded", clip=True) for o in OFFLOADS),
        *(Case("ddp", o, 3, 2, 0, clip=True) for o in OFFLOADS)]),
    "several_files": ("several_files", [SINGLE, DDP_2, FSDP_3], []),
    **{variant: (variant, OF_A_TIED_FAMILY if variant in ("qwen2", "tied_padding") else OF_A_FAMILY, [])
       for variant in [*FAMILIES, "padding", "tied_padding"]},
}


@pytest.mark.parametrize("variant, case", [
    pytest.param(variant, case, id=f"{name}-{case}") for name, (variant, singly, many) in LOSSES.items()
    for case in [*singly, *pairwise(many)]])
def test_losses(trainer, variant, case, checkpoints, tokens, reference_for, tmp_path):
    assert (checkpoints[variant] / "model.safetensors.index.json").exists() == (variant == "several_files")
    reference = reference_for("plain" if variant == "several_files" else variant, CLIP_NORM if case.clip else None)
    check(trainer, case, reference, case.spec(checkpoints[variant], tokens), tmp_path)


@cases(SINGLE, DDP_2, FSDP_3)
def test_small_epsilon(trainer, case, checkpoints, tokens, reference_for, tmp_path):
    """AdamW with the usual epsilon. OPTIMIZER says why the other tests use a large one."""
    epsilon = 1e-8
    spec = case.spec(checkpoints["plain"], tokens)
    spec["optimizer"]["epsilon"] = epsilon
    check(trainer, case, reference_for("plain", epsilon=epsilon), spec, tmp_path)


@pytest.mark.parametrize("sharding", ["full_shard", "hybrid_shard"])
@cases(Case("single"), Case("single", "parameters", accumulation=2), many=[(Case(k, o, r) for k, o,
                                                                            r in DISTRIBUTED
                                                                            if r != 3)])
def test_reported_norm(trainer, case, sharding, checkpoints, tokens, reference_for, tmp_path):
    """The norm is reported without clipping, and the losses stay the same."""
    spec = case.spec(checkpoints["plain"], tokens)
    spec["strategy"] |= {"sharding": sharding, "shard_group_size": 2}
    spec["train"]["report_gradient_norm"] = True
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    reference = reference_for("plain")
    assert_close("loss", reference.losses, run.losses(), TOLERANCE)
    assert_close("gradient_norm", reference.gradient_norms, run.gradient_norms(), TOLERANCE)


@cases(
    Case("single"),
    Case("ddp", ranks=2, accumulation=2),
    Case("ddp", "optimizer", ranks=2),
    Case("fsdp", ranks=3, accumulation=2),
    Case("fsdp", "optimizer", ranks=2, checkpoint_every=1),
)
def test_bf16(trainer, case, checkpoints, tokens, reference_for, tmp_path):
    reference = reference_for("plain", dtype=torch.bfloat16)
    spec = case.spec(checkpoints["plain"], tokens, precision="bf16_true")
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", reference.losses, run.losses(), BF16_TOLERANCE)
    with pytest.raises(AssertionError):  # proves that the precision differs
        assert_close("loss", reference_for("plain").losses, run.losses(), TOLERANCE)
