"""Every optimizer steps like torch.optim's, and every schedule gives the rates of
torch.optim.lr_scheduler's. Compares the losses of whole runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy
import pytest
import safetensors.torch
import torch
import transformers
from agreement import assert_close, assert_ranks_agree
from bitsandbytes.backends.cpu import ops as bitsandbytes_on_cpu
from bitsandbytes.optim import AdamW8bit
from checkpoints import PLAIN_CONFIG, STEPS, TOTAL_BATCH
from reference import OPTIMIZER
from torch.optim import SGD, Adadelta, Adam, AdamW
from torch.optim.lr_scheduler import (ConstantLR, CosineAnnealingLR, LinearLR, LRScheduler,
                                      SequentialLR, StepLR)
from test_against_transformers import Case
from trainer import train
from transformers import LlamaForCausalLM

TOLERANCE = 1e-5
RATE_TOLERANCE = 1e-12
# Rounding the state changes these losses by 5e-6 to 9e-6. The reference rounds in the same places.
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


def train_reference(checkpoint, tokens, make_optimizer: MakeOptimizer,
                    make_scheduler: MakeScheduler | None = None, steps: int = STEPS,
                    bf16_state: bool = False) -> Reference:
    """Trains the small LLaMA with PyTorch in one process. A step takes TOTAL_BATCH rows, in order.
    After the last row, it starts again at the first."""
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
    spec = Case(strategy["kind"], ranks=strategy["ranks"]).spec(checkpoint, tokens, strategy=strategy)
    return spec | {"optimizer": optimizer, "train": {"steps": steps, "seed": 1}}


BETAS = (OPTIMIZER["beta1"], OPTIMIZER["beta2"])
ADAM = {name: OPTIMIZER[name] for name in ("learning_rate", "beta1", "beta2", "epsilon")}
TORCH_ADAM = dict(lr=OPTIMIZER["learning_rate"], betas=BETAS, eps=OPTIMIZER["epsilon"])


def without_decay_of_norms(parameters: list[torch.nn.Parameter], weight_decay: float) -> list[dict]:
    """Returns groups with and without decay. The small LLaMA's only vectors are the weights of its
    norms. It has no biases."""
    return [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0}]


# name -> our keys of the optimizer, and PyTorch's optimizer with the same settings.
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


# Each kind with every strategy; the variants of a kind where shards cut parameters, too.
@pytest.mark.parametrize("name, strategy", [
    *product(["adamw_no_decay", "adam_decay", "sgd_momentum_decay", "adadelta_decay"], STRATEGIES),
    *product(["adamw", "adamw_decay", "sgd", "sgd_momentum", "sgd_no_decay", "adadelta"], ["single", "fsdp_4_ranks"])])
def test_optimizer(trainer, name, strategy, checkpoints, tokens, optimizer_references, tmp_path):
    keys, _ = OPTIMIZERS[name]
    spec = spec_for(checkpoints["plain"], tokens, STRATEGIES[strategy], keys)
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", optimizer_references[name].losses, run.losses(), TOLERANCE)


def test_references_are_worth_comparing(optimizer_references):
    """The last losses of any two references differ by far more than the tolerance."""
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


@pytest.mark.parametrize("name, strategy", [
    *product(["adamw_decay"], STRATEGIES), *product(["adam_decay", "sgd_momentum"], ["single", "fsdp_2_ranks_offload"])])
def test_bf16_state(trainer, name, strategy, checkpoints, tokens, optimizer_references, tmp_path):
    keys, make_optimizer = OPTIMIZERS[name]
    rounded = train_reference(checkpoints["plain"], tokens, make_optimizer, bf16_state=True)
    spec = spec_for(checkpoints["plain"], tokens, STRATEGIES[strategy], {**keys,
                                                                         "state_dtype": "bf16"})
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", rounded.losses, run.losses(), BF16_STATE_TOLERANCE)
    in_fp32 = optimizer_references[name].losses
    assert_close("loss", in_fp32, run.losses(), BF16_STATE_TO_FP32_TOLERANCE)
    with pytest.raises(AssertionError):  # proves that the state has another dtype
        assert_close("loss", in_fp32, run.losses(), BF16_STATE_TOLERANCE)


INT8 = {"kind": "adamw", **ADAM, "weight_decay": 0.3, "state_dtype": "int8"}
INT8_STEPS = 20
INT8_TOLERANCE = 1e-5  # rounding of a gradient may change a moment's code by one
FSDP_2 = STRATEGIES["fsdp_2_ranks"]
# name -> the keys that differ, and the strategy.
INT8_RUNS = {
    "ddp": ({}, {"kind": "ddp", "ranks": 2}),
    "fsdp_2_ranks": ({}, FSDP_2),
    "fsdp_3_ranks": ({}, {"kind": "fsdp", "ranks": 3}),
    "offload_optimizer": ({}, FSDP_2 | {"offload": "optimizer"}),
    "offload_parameters": ({}, FSDP_2 | {"offload": "parameters"}),
    "in_backward": ({"optimizer": INT8 | {"in_backward": True}}, FSDP_2),
    "accumulation": ({"batch": {"size_per_rank": 4, "total": TOTAL_BATCH}}, FSDP_2),
}


@pytest.fixture(scope="module")
def whole_blocks(tmp_path_factory):
    """A LLaMA for 8-bit states, which are quantized in blocks of 256 elements. Its matrices have at
    least 4,096 elements. The size of those in its layers is a multiple of 256, so joined matrices
    have the same blocks. Its norms are small."""
    torch.manual_seed(5)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    config = transformers.LlamaConfig(**PLAIN_CONFIG | sizes | heads)
    folder = tmp_path_factory.mktemp("whole_blocks")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def int8_run(trainer, whole_blocks, tokens, tmp_path_factory):
    """A run with a checkpoint of every step, and its folder."""
    folder = tmp_path_factory.mktemp("int8") / "run"
    spec = spec_for(whole_blocks, tokens, SINGLE, INT8, INT8_STEPS)
    return train(trainer, spec | {"checkpoint": {"every_steps": 1}}, folder), folder


def quantize_to_the_nearest(values, code, absmax, out, blocksize):
    """Uses bitsandbytes' operator for other dtypes. Its operator for fp32 on a CPU first rounds to
    one of 65,536 evenly spaced numbers."""
    codes, largest = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
    out.copy_(codes)
    absmax.copy_(largest)


# The trainer joins these tensors to one parameter. The key is the name of the first.
JOINED = {"q_proj": ["q_proj", "k_proj", "v_proj"], "gate_proj": ["gate_proj", "up_proj"]}
# The trainer's name of a state -> bitsandbytes' name.
STATE_NAMES = {
    "exp_avg_codes": "state1",
    "exp_avg_sq_codes": "state2",
    "exp_avg_absmax": "absmax1",
    "exp_avg_sq_absmax": "absmax2",
    "exp_avg": "state1",
    "exp_avg_sq": "state2",
}


def state_after(folder, step: int) -> dict[tuple[str, str], torch.Tensor]:
    """Returns the optimizer's state: (tensor, bitsandbytes' name of the state) -> values."""
    pieces = safetensors.torch.load_file(
        folder / "checkpoints" / f"step-{step}" / "optimizer.rank0.safetensors"
    )
    state = {}
    for key, values in pieces.items():
        name, tensor = key.removesuffix("@0").split("/")
        joined = next((parts for first, parts in JOINED.items() if first in tensor), [""])
        for part, piece in zip(joined, values.chunk(len(joined))):
            state[tensor.replace(joined[0], part), STATE_NAMES[name]] = piece
    return state


def weights_after(folder, step: int) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "checkpoints" / f"step-{step}" / "model.safetensors")


def step_with_bitsandbytes(model, optimizer, folder, step: int, batch) -> None:
    """Repeats a step of the run, from the weights and the state that the run had before it."""
    group = optimizer.param_groups[0]
    before = state_after(folder, step - 1) if step > 1 else {}
    if step > 1:
        model.load_state_dict(weights_after(folder, step - 1), strict=False)
    for index, (name, parameter) in enumerate(model.named_parameters()):
        optimizer.init_state(group, parameter, 0, index)
        state = optimizer.state[parameter]
        state["step"] = step - 1
        for (tensor, key), values in before.items():
            if tensor == name:
                state[key].view(-1).copy_(values)
    logits = model(batch[:, :-1], use_cache=False).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


def assert_same_state(what: str, expected: torch.Tensor, found: torch.Tensor) -> None:
    """A moment between two codes may have either, because gradients differ by rounding."""
    assert found.dtype == expected.dtype, what
    if found.dtype == torch.uint8:
        differences = (found.int() - expected.view(-1).int()).abs()
        assert differences.max() <= 1 and differences.sum() <= 1e-3 * found.numel(), what
    else:
        expected = expected.view(-1)
        digits = 1e-6 * expected.abs().max().item()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=digits, msg=what)


def test_int8_state_as_in_bitsandbytes(whole_blocks, tokens, int8_run, monkeypatch):
    """Compares each of 20 steps."""
    monkeypatch.setattr(bitsandbytes_on_cpu, "_quant_blockwise_fp32_direct", quantize_to_the_nearest)
    _, folder = int8_run
    model = LlamaForCausalLM.from_pretrained(whole_blocks, dtype=torch.float32)
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizer = AdamW8bit(list(names), lr=ADAM["learning_rate"], betas=BETAS, eps=ADAM["epsilon"],
                          weight_decay=0.3)
    state_of = {name: optimizer.state[parameter] for parameter, name in names.items()}
    batches = torch.from_numpy(numpy.load(tokens).astype(numpy.int64)).split(TOTAL_BATCH)
    for step in range(1, INT8_STEPS + 1):
        step_with_bitsandbytes(model, optimizer, folder, step, batches[(step - 1) % len(batches)])
        weights, states = weights_after(folder, step), state_after(folder, step)
        for parameter, name in names.items():
            torch.testing.assert_close(weights[name], parameter.data, rtol=1e-6, atol=2e-7)
        for (name, key), found in states.items():
            assert_same_state(f"step {step}: {key} of {name}", state_of[name][key], found)


@pytest.mark.parametrize("name", INT8_RUNS)
def test_int8_state_does_not_depend_on_ranks(trainer, whole_blocks, tokens, int8_run, tmp_path,
                                             name):
    keys, strategy = INT8_RUNS[name]
    spec = spec_for(whole_blocks, tokens, strategy, INT8) | keys
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", int8_run[0].losses()[:STEPS], run.losses(), INT8_TOLERANCE)


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
def test_stochastic_rounding_follows_fp32(trainer, strategy, checkpoints, tokens, fp32_losses,
                                          tmp_path):
    losses = train_in_bf16(trainer, checkpoints["plain"], tokens, STRATEGIES[strategy],
                           "stochastic", tmp_path)
    assert_close("loss", fp32_losses, losses, 3e-3)


def test_rounding_to_nearest_stalls(trainer, checkpoints, tokens, fp32_losses, tmp_path):
    """Most updates of 1e-4 are less than half a unit in the last place of the weights."""
    losses = train_in_bf16(trainer, checkpoints["plain"], tokens, SINGLE, "nearest", tmp_path)
    assert losses[0] - losses[-1] < 0.3 * (fp32_losses[0] - fp32_losses[-1])


@dataclass(frozen=True)
class Schedule:
    """The keys of `schedule`, and the PyTorch scheduler that trainer/train/schedule.h names for
    them."""

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
    # An epoch has STEPS batches, so the rate decays once.
    Schedule("step", 0, {"gamma": 0.5}, step(STEPS, 0.5), steps=2 * STEPS),
]


def check_schedule(trainer, schedule, strategy, checkpoint, tokens, folder):
    reference = train_reference(checkpoint, tokens, lambda p: AdamW(p, **TORCH_ADAM,
                                                                    weight_decay=0.1),
                                schedule.scheduler, schedule.steps)
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
