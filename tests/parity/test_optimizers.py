"""Every optimizer steps as torch.optim's, and every schedule gives the rates of
torch.optim.lr_scheduler's, seen through the losses of whole runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
import pytest
import torch
from agreement import assert_close, assert_ranks_agree
from checkpoints import SEQUENCE_LENGTH, STEPS, TOTAL_BATCH
from reference import OPTIMIZER
from torch.optim import SGD, Adadelta, Adam, AdamW
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
    StepLR,
)
from trainer import train
from transformers import LlamaForCausalLM

TOLERANCE = 1e-5
RATE_TOLERANCE = 1e-12
# Rounding the state changes these losses by 5e-6 to 9e-6; the reference rounds in the same places.
BF16_STATE_TOLERANCE = 2e-6
BF16_STATE_TO_FP32_TOLERANCE = 2e-5

MakeOptimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], LRScheduler]

SINGLE = {"kind": "single", "ranks": 1}
STRATEGIES = {
    "single": SINGLE,
    "fsdp_2_ranks": {"kind": "fsdp", "ranks": 2},
    "fsdp_2_ranks_offload": {"kind": "fsdp", "ranks": 2, "offload": "optimizer"},
    "fsdp_4_ranks": {"kind": "fsdp", "ranks": 4},
}


@dataclass(frozen=True)
class Reference:
    losses: list[float]
    learning_rates: list[float]


def round_state_to_bf16(optimizer: torch.optim.Optimizer) -> None:
    for state in optimizer.state.values():
        for name, value in state.items():
            if name != "step" and value is not None:
                value.copy_(value.bfloat16())


def train_reference(
    checkpoint,
    tokens,
    make_optimizer: MakeOptimizer,
    make_scheduler: MakeScheduler | None = None,
    steps: int = STEPS,
    bf16_state: bool = False,
) -> Reference:
    """The small LLaMA under PyTorch in one process: TOTAL_BATCH rows a step, in their order, and
    again from the first one."""
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    optimizer = make_optimizer(list(model.parameters()))
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    batches = torch.from_numpy(numpy.load(tokens).astype(numpy.int64)).split(TOTAL_BATCH)
    losses, learning_rates = [], []
    for step in range(steps):
        batch = batches[step % len(batches)]
        logits = model(batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        losses.append(loss.item())
        learning_rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        optimizer.zero_grad()
        if scheduler:
            scheduler.step()
        if bf16_state:
            round_state_to_bf16(optimizer)
    return Reference(losses, learning_rates)


def spec_for(checkpoint, tokens, strategy: dict, optimizer: dict, steps: int = STEPS) -> dict:
    return {
        "model": {"source": str(checkpoint)},
        "data": {
            "kind": "tokens",
            "train": str(tokens),
            "sequence_length": SEQUENCE_LENGTH,
            "shuffle": False,
        },
        "strategy": strategy,
        "batch": {"size_per_rank": TOTAL_BATCH // strategy["ranks"], "total": TOTAL_BATCH},
        "optimizer": optimizer,
        "train": {"steps": steps, "seed": 1},
        "device": "cpu",
        "threads_per_rank": 1,
    }


BETAS = (OPTIMIZER["beta1"], OPTIMIZER["beta2"])
ADAM = {name: OPTIMIZER[name] for name in ("learning_rate", "beta1", "beta2", "epsilon")}
TORCH_ADAM = dict(lr=OPTIMIZER["learning_rate"], betas=BETAS, eps=OPTIMIZER["epsilon"])


def without_decay_of_norms(
    parameters: list[torch.nn.Parameter], weight_decay: float
) -> list[dict]:
    """The small LLaMA's only vectors are the weights of its norms; it has no biases."""
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0},
    ]


# The optimizer's keys, and PyTorch's with the same settings.
OPTIMIZERS: dict[str, tuple[dict, MakeOptimizer]] = {
    "adamw": ({"kind": "adamw", **ADAM}, lambda p: AdamW(p, **TORCH_ADAM, weight_decay=0)),
    "adamw_decay": (
        {"kind": "adamw", **ADAM, "weight_decay": 1.0},
        lambda p: AdamW(p, **TORCH_ADAM, weight_decay=1.0),
    ),
    "adamw_no_decay": (
        {"kind": "adamw", **ADAM, "weight_decay": 5.0, "no_decay": ["norm", "bias"]},
        lambda p: AdamW(without_decay_of_norms(p, 5.0), **TORCH_ADAM),
    ),
    "adam_decay": (
        {"kind": "adam", **ADAM, "weight_decay": 0.03},
        lambda p: Adam(p, **TORCH_ADAM, weight_decay=0.03),
    ),
    "sgd": ({"kind": "sgd", "learning_rate": 0.1}, lambda p: SGD(p, lr=0.1)),
    "sgd_momentum": (
        {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9},
        lambda p: SGD(p, lr=0.05, momentum=0.9),
    ),
    "sgd_momentum_decay": (
        {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.03},
        lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.03),
    ),
    "sgd_no_decay": (
        {"kind": "sgd", "learning_rate": 0.1, "weight_decay": 0.3, "no_decay": ["norm"]},
        lambda p: SGD(without_decay_of_norms(p, 0.3), lr=0.1),
    ),
    "adadelta": (
        {"kind": "adadelta", "learning_rate": 0.5, "rho": 0.9, "epsilon": 1e-4},
        lambda p: Adadelta(p, lr=0.5, rho=0.9, eps=1e-4),
    ),
    "adadelta_decay": (
        {
            "kind": "adadelta",
            "learning_rate": 0.5,
            "rho": 0.8,
            "epsilon": 1e-4,
            "weight_decay": 0.03,
        },
        lambda p: Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.03),
    ),
}


@pytest.fixture(scope="module")
def optimizer_references(checkpoints, tokens) -> dict[str, Reference]:
    return {
        name: train_reference(checkpoints["plain"], tokens, make_optimizer)
        for name, (_, make_optimizer) in OPTIMIZERS.items()
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(trainer, name, strategy, checkpoints, tokens, optimizer_references, tmp_path):
    keys, _ = OPTIMIZERS[name]
    spec = spec_for(checkpoints["plain"], tokens, STRATEGIES[strategy], keys)
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", optimizer_references[name].losses, run.losses(), TOLERANCE)


def test_references_are_worth_comparing(optimizer_references):
    """Each one's last loss differs from every other one's by far more than the tolerance."""
    last = sorted(reference.losses[-1] for reference in optimizer_references.values())
    for smaller, larger in zip(last, last[1:]):
        assert larger - smaller > 50 * TOLERANCE * larger, last
    for name, reference in optimizer_references.items():
        assert reference.losses[-1] < reference.losses[0] - 0.1, name


@pytest.mark.parametrize("name, decay", [("adamw_no_decay", 5.0), ("sgd_no_decay", 0.3)])
def test_no_decay_is_worth_comparing(name, decay, checkpoints, tokens, optimizer_references):
    def with_all_decayed(parameters):
        optimizer = OPTIMIZERS[name][1](parameters)
        for group in optimizer.param_groups:
            group["weight_decay"] = decay
        return optimizer

    decayed = train_reference(checkpoints["plain"], tokens, with_all_decayed)
    with pytest.raises(AssertionError):
        assert_close("loss", optimizer_references[name].losses, decayed.losses, 50 * TOLERANCE)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["adamw_decay", "adam_decay", "sgd_momentum"])
def test_bf16_state(trainer, name, strategy, checkpoints, tokens, optimizer_references, tmp_path):
    keys, make_optimizer = OPTIMIZERS[name]
    rounded = train_reference(checkpoints["plain"], tokens, make_optimizer, bf16_state=True)
    spec = spec_for(
        checkpoints["plain"], tokens, STRATEGIES[strategy], {**keys, "state_dtype": "bf16"}
    )
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", rounded.losses, run.losses(), BF16_STATE_TOLERANCE)
    in_fp32 = optimizer_references[name].losses
    assert_close("loss", in_fp32, run.losses(), BF16_STATE_TO_FP32_TOLERANCE)
    with pytest.raises(AssertionError):  # the state was really another dtype's
        assert_close("loss", in_fp32, run.losses(), BF16_STATE_TOLERANCE)


ROUNDED_STEPS = 100
ROUNDED = {"kind": "adamw", "learning_rate": 1e-4, "beta2": 0.999}


@pytest.fixture(scope="module")
def fp32_losses(trainer, checkpoints, tokens, tmp_path_factory) -> list[float]:
    spec = spec_for(checkpoints["plain"], tokens, SINGLE, ROUNDED, ROUNDED_STEPS)
    return train(trainer, spec, tmp_path_factory.mktemp("fp32") / "run").losses()


def train_in_bf16(trainer, checkpoint, tokens, strategy, rounding, folder) -> list[float]:
    optimizer = ROUNDED | {"rounding": rounding}
    spec = spec_for(checkpoint, tokens, strategy, optimizer, ROUNDED_STEPS)
    run = train(trainer, spec | {"precision": "bf16_true"}, folder)
    assert_ranks_agree(run)
    return run.losses()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_stochastic_rounding_follows_fp32(
    trainer, strategy, checkpoints, tokens, fp32_losses, tmp_path
):
    losses = train_in_bf16(
        trainer, checkpoints["plain"], tokens, STRATEGIES[strategy], "stochastic", tmp_path
    )
    assert_close("loss", fp32_losses, losses, 3e-3)


def test_rounding_to_nearest_stalls(trainer, checkpoints, tokens, fp32_losses, tmp_path):
    """Most updates of 1e-4 are below half a last digit of the weights."""
    losses = train_in_bf16(trainer, checkpoints["plain"], tokens, SINGLE, "nearest", tmp_path)
    assert losses[0] - losses[-1] < 0.3 * (fp32_losses[0] - fp32_losses[-1])


@dataclass(frozen=True)
class Schedule:
    """The keys of `schedule`, and what trainer/train/schedule.h says they are in PyTorch."""

    kind: str
    warmup_steps: int = 0
    keys: dict = field(default_factory=dict)
    after: Callable[[torch.optim.Optimizer, int], LRScheduler] | None = None
    steps: int = STEPS

    def __str__(self) -> str:
        parts = [self.kind, f"warmup_{self.warmup_steps}"]
        return "-".join(parts + [f"{key}_{value}" for key, value in self.keys.items()])

    def spec(self) -> dict:
        return {"kind": self.kind, "warmup_steps": self.warmup_steps, **self.keys}

    def scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        warmup = self.warmup_steps
        after = self.after(optimizer, self.steps - warmup)
        if warmup == 0:
            return after
        rise = LinearLR(optimizer, 1 / (warmup + 1), 1, warmup)
        return SequentialLR(optimizer, [rise, after], [warmup])


PEAK_RATE = OPTIMIZER["learning_rate"]
LOWEST_RATE = PEAK_RATE / 30


def constant(optimizer, _):
    return ConstantLR(optimizer, 1)


def linear(lowest):
    return lambda optimizer, remaining: LinearLR(optimizer, 1, lowest / PEAK_RATE, remaining)


def cosine(lowest):
    return lambda optimizer, remaining: CosineAnnealingLR(optimizer, remaining, lowest)


def step(size, gamma):
    return lambda optimizer, _: StepLR(optimizer, size, gamma)


TO_LOWEST = {"min_learning_rate": LOWEST_RATE}
SCHEDULES = [
    Schedule("constant", after=constant),
    Schedule("constant", 3, after=constant),
    Schedule("linear", after=linear(0)),
    Schedule("linear", 3, after=linear(0)),
    Schedule("linear", 0, TO_LOWEST, linear(LOWEST_RATE)),
    Schedule("linear", 4, TO_LOWEST, linear(LOWEST_RATE)),
    Schedule("cosine", after=cosine(0)),
    Schedule("cosine", 3, after=cosine(0)),
    Schedule("cosine", 0, TO_LOWEST, cosine(LOWEST_RATE)),
    Schedule("cosine", 4, TO_LOWEST, cosine(LOWEST_RATE)),
    Schedule("linear", 2, {**TO_LOWEST, "decay_steps": 7},
             lambda optimizer, _: LinearLR(optimizer, 1, LOWEST_RATE / PEAK_RATE, 7 - 2)),
    Schedule("step", 0, {"step_size": 4, "gamma": 0.3}, step(4, 0.3)),
    Schedule("step", 2, {"step_size": 3}, step(3, 0.1)),
    # The tokens are STEPS batches, so this decays once.
    Schedule("step", 0, {"gamma": 0.5}, step(STEPS, 0.5), steps=2 * STEPS),
]


def check_schedule(trainer, schedule, strategy, checkpoint, tokens, folder):
    reference = train_reference(
        checkpoint,
        tokens,
        lambda p: AdamW(p, **TORCH_ADAM, weight_decay=0.1),
        schedule.scheduler,
        schedule.steps,
    )
    optimizer = {"kind": "adamw", **ADAM, "weight_decay": 0.1}
    spec = spec_for(checkpoint, tokens, strategy, optimizer, schedule.steps)
    spec["schedule"] = schedule.spec()
    run = train(trainer, spec, folder)
    for steps in run.steps:
        rates = [step["learning_rate"] for step in steps]
        assert_close("learning_rate", reference.learning_rates, rates, RATE_TOLERANCE)
    assert_close("loss", reference.losses, run.losses(), TOLERANCE)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_schedule(trainer, schedule, checkpoints, tokens, tmp_path):
    check_schedule(trainer, schedule, SINGLE, checkpoints["plain"], tokens, tmp_path)


@pytest.mark.parametrize("schedule", SCHEDULES[3::4], ids=str)
def test_schedule_on_two_ranks(trainer, schedule, checkpoints, tokens, tmp_path):
    strategy = STRATEGIES["fsdp_2_ranks_offload"]
    check_schedule(trainer, schedule, strategy, checkpoints["plain"], tokens, tmp_path)
