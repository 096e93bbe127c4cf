"""Adapters are trained as PEFT trains them, with every strategy. PEFT reads the saved adapters."""

import json
import shutil
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import bitsandbytes
import numpy
import pytest
import safetensors.torch
import torch
from agreement import assert_close, assert_ranks_agree
from checkpoints import FAMILIES, STEPS, TOTAL_BATCH, copy_with_changed_tensor
from cover import pairwise
from logits import assert_same_logits, first_logits
from peft_reference import Adapters, load_adapter, load_model, train_adapter, write_adapter
from test_against_transformers import TOLERANCE, Case
from trainer import log_file, start, train, wait_for
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="module")
def adapter(checkpoints, tmp_path_factory):
    """(variant, adapters) -> the folder of the saved adapter."""
    return cache(lambda variant, adapters: write_adapter(
        load_model(checkpoints[variant]), adapters, tmp_path_factory.mktemp("adapter") / variant))


@pytest.fixture(scope="module")
def reference(checkpoints, tokens, adapter):
    return cache(lambda variant, adapters: train_adapter(
        checkpoints[variant], adapter(variant, adapters), tokens, adapters.method))


def spec_of(case, checkpoints, tokens, adapter, variant, adapters):
    return case.spec(checkpoints[variant], tokens, **adapters.keys(adapter(variant, adapters)))


def check(trainer, spec, losses, folder):
    run = train(trainer, spec, folder)
    assert_ranks_agree(run)
    assert_close("loss", losses, run.losses(), TOLERANCE)


MODELS = ["plain", "grouped_query", "tied", "padding", *FAMILIES]
STRATEGIES = [
    *(("single", "full_shard", 1, offload) for offload in ("none", "optimizer", "parameters")),
    *(("ddp", "full_shard", 2, offload) for offload in ("none", "optimizer")),
    *product(["fsdp"], ["full_shard", "shard_grad_op"], [3], ["none", "optimizer", "parameters"]),
]
NARROW = ("grouped_query", "mistral", "qwen3")  # models with keys and values narrower than rank 37


def adapters_of(variant, rank, targets, method):
    """Returns adapters with a scale at which ten steps are stable. A larger scale would amplify
    rounding errors of the losses."""
    alpha = {1: 2.0, 8: 16.0, 37: 5.0}[rank]
    return Adapters(13 if rank == 37 and variant in NARROW else rank, alpha, targets, method=method)


AGREEING = pairwise(
    (variant, adapters_of(variant, *adapters), Case(kind, offload, ranks, accumulation, every), sharding)
    for (kind, sharding, ranks, offload), variant, adapters, accumulation, every in product(
        STRATEGIES, MODELS,
        product([1, 8, 37], [("all-linear",), ("q_proj", "v_proj"), ("mlp", "k_proj")], ["lora", "qlora"]),
        [1, 2], [0, 1])
)


@pytest.mark.parametrize("variant, adapters, case, sharding", AGREEING, ids=str)
def test_strategies(trainer, variant, adapters, case, sharding, checkpoints, tokens, adapter, reference, tmp_path):
    spec = spec_of(case, checkpoints, tokens, adapter, variant, adapters)
    spec["strategy"] |= {"sharding": sharding} if case.kind == "fsdp" else {}
    check(trainer, spec, reference(variant, adapters), tmp_path)


@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("adapters, case, strategy", [
    (Adapters(targets=("attention",), use_rslora=True), Case("fsdp", ranks=4, checkpoint_every=2),
     {"sharding": "hybrid_shard", "shard_group_size": 2}),
    (Adapters(rank=3, targets=("down_proj",)), Case("fsdp", "optimizer", 4, 2), {"sharding": "no_shard"}),
    (Adapters(targets=("mlp",)), Case("ddp", "optimizer", 4, 2), {}),
], ids=str)
def test_rare_strategies(trainer, adapters, case, strategy, method, checkpoints, tokens, adapter,
                         reference, tmp_path):
    adapters = replace(adapters, method=method)
    spec = spec_of(case, checkpoints, tokens, adapter, "grouped_query", adapters)
    spec["strategy"] |= strategy
    check(trainer, spec, reference("grouped_query", adapters), tmp_path)


@pytest.mark.parametrize("state_dict", ["full", "sharded"])
@pytest.mark.parametrize("method, writer, reader", [
    ("lora", Case("fsdp", ranks=3), Case("single", "optimizer")),
    ("lora", Case("ddp", ranks=2, accumulation=2), Case("fsdp", "parameters", ranks=2)),
    ("qlora", Case("single", "parameters"), Case("fsdp", ranks=3)),
], ids=str)
def test_resume(trainer, method, writer, reader, state_dict, checkpoints, tokens, adapter, reference, tmp_path):
    adapters = Adapters(method=method)
    spec = spec_of(writer, checkpoints, tokens, adapter, "grouped_query", adapters)
    spec["checkpoint"] = {"every_steps": STEPS // 2, "state_dict": state_dict}
    train(trainer, spec, tmp_path / "written")
    folder = tmp_path / f"written/checkpoints/step-{STEPS // 2}"
    weights = {"full": {"adapter_model.safetensors", "adapter_config.json"},
               "sharded": {f"weights.rank{rank}.safetensors" for rank in range(sharing(writer))}}
    optimizer = {f"optimizer.rank{rank}.safetensors" for rank in range(sharing(writer))}
    assert {file.name for file in folder.iterdir()} == weights[state_dict] | optimizer | {"trainer.json"}
    spec = spec_of(reader, checkpoints, tokens, adapter, "grouped_query", adapters)
    run = train(trainer, spec | {"resume": str(folder)}, tmp_path / "resumed")
    losses = reference("grouped_query", adapters)
    assert_close("loss", losses[STEPS // 2 :], run.losses(), TOLERANCE)


@pytest.mark.parametrize("kind", ["single", "fsdp"])
def test_folders_of_bitsandbytes(trainer, kind, checkpoints, tokens, adapter, reference, tmp_path):
    adapters = Adapters(method="qlora")
    load_model(checkpoints["grouped_query"], "qlora").save_pretrained(tmp_path / "quantized")
    case = Case(kind, ranks=1 if kind == "single" else 2)
    spec = spec_of(case, checkpoints, tokens, adapter, "grouped_query", adapters)
    spec["model"]["source"] = str(tmp_path / "quantized")
    spec |= merged(adapters)
    folder = adapter("grouped_query", adapters)
    check(trainer, spec, train_adapter(tmp_path / "quantized", folder, tokens), tmp_path / "run")
    folder = tmp_path / f"run/checkpoints/step-{STEPS}"
    reference = load_adapter(tmp_path / "quantized", folder).train()
    assert largest_difference(logits_of(open_merged(folder), tokens), logits_of(reference, tokens)) <= 1e-4


def sharing(case: Case) -> int:
    return case.ranks if case.kind == "fsdp" else 1


@pytest.mark.parametrize("variant, adapters", [("plain", Adapters(rank=3, targets=("mlp",
                                                                                   "v_proj"))),
                                               ("qwen2", Adapters(use_rslora=True))], ids=str)
def test_peft_reads_checkpoints(trainer, logits_writer, variant, adapters, checkpoints, tokens, adapter, tmp_path):
    """lora.adapter reads them too. Both give the same logits, which differ from the untrained
    ones."""
    case = Case("fsdp", ranks=2)
    spec = spec_of(case, checkpoints, tokens, adapter, variant, adapters)
    train(trainer, spec | {"checkpoint": {"at_end": True}}, tmp_path / "run")
    folder = tmp_path / f"run/checkpoints/step-{STEPS}"
    spec["lora"]["adapter"] = str(folder)
    ours = first_logits(logits_writer, spec, tokens, tmp_path / "logits")
    rows = torch.from_numpy(numpy.load(tokens)[:TOTAL_BATCH, :-1].astype(numpy.int64))
    with torch.no_grad():
        trained, first = (
            load_adapter(checkpoints[variant], of).eval()(input_ids=rows, use_cache=False).logits
            for of in (folder, adapter(variant, adapters)))
    assert_same_logits(trained.flatten(0, 1).numpy(), ours.training, tolerance=1e-5)
    assert_same_logits(trained.flatten(0, 1).numpy(), ours.evaluation, tolerance=1e-5)
    assert (trained - first).abs().max() > 0.01


def merged(adapters: Adapters, dtype: str | None = "fp32") -> dict:
    checkpoint = {"at_end": True, "merge": True}
    return {"method": adapters.method, "checkpoint": checkpoint | ({"merge_dtype": dtype} if dtype else {})}


def open_merged(checkpoint: Path, **keys):
    model, report = AutoModelForCausalLM.from_pretrained(
        checkpoint / "merged", output_loading_info=True, **keys)
    assert not any(report.values()), report
    return model.eval()


def logits_of(model, tokens: Path) -> torch.Tensor:
    """Returns the logits. A model of bitsandbytes must be in training mode: in evaluation it takes
    only wide layers."""
    rows = torch.from_numpy(numpy.load(tokens)[:TOTAL_BATCH, :-1].astype(numpy.int64))
    with torch.no_grad():
        return model(input_ids=rows, use_cache=False).logits


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.mark.parametrize("variant, case, adapters", [
    ("plain", Case("single"), Adapters(rank=3, targets=("mlp", "v_proj"))),
    ("tied", Case("fsdp", ranks=2), Adapters()),
    ("biases", Case("fsdp", ranks=2), Adapters(use_rslora=True)),
    ("several_files", Case("ddp", ranks=2), Adapters(targets=("attention",))),
    ("qwen2", Case("fsdp", "parameters", ranks=2), Adapters()),
    ("qwen3", Case("single", "optimizer"), Adapters(targets=("q_proj",))),
    ("grouped_query", Case("single"), Adapters(method="qlora")),
    ("tied", Case("fsdp", ranks=2), Adapters(method="qlora", targets=("mlp",))),
], ids=str)
def test_merged_models(trainer, variant, case, adapters, checkpoints, tokens, adapter, tmp_path):
    """A merged model computes what PEFT computes with the checkpoint's adapters."""
    spec = spec_of(case, checkpoints, tokens, adapter, variant, adapters) | merged(adapters)
    train(trainer, spec, tmp_path)
    folder = tmp_path / f"checkpoints/step-{STEPS}"
    reference = load_adapter(checkpoints[variant], folder, method=adapters.method).train()
    if adapters.method == "lora":
        reference = reference.merge_and_unload()
    ours, expected = logits_of(open_merged(folder), tokens), logits_of(reference, tokens)
    assert largest_difference(ours, expected) <= (1e-5 if adapters.method == "lora" else 1e-4)
    first = load_model(checkpoints[variant], adapters.method).train()
    assert largest_difference(ours, logits_of(first, tokens)) > 0.01
    names = {file["name"] for file in json.loads((folder / "trainer.json").read_text())["files"]}
    assert {"adapter_model.safetensors", "merged/config.json", "merged/model.safetensors"} <= names


@pytest.mark.parametrize("method, precision, dtype, stored", [
    ("lora", "bf16_mixed", None, torch.float32),
    ("lora", "bf16_true", None, torch.bfloat16),
    ("lora", "bf16_mixed", "fp16", torch.float16),
    ("qlora", "bf16_mixed", "fp32", torch.float32),
    ("qlora", "bf16_true", "fp16", torch.float16),
    ("qlora", "bf16_mixed", "bf16", torch.bfloat16),
], ids=str)
def test_dtypes_of_merged_models(trainer, method, precision, dtype, stored, checkpoints, tokens, adapter, tmp_path):
    """Weights and adapters are added in fp32. The weights are the model's own, or those that
    training computed with."""
    adapters = Adapters(rank=4, targets=("up_proj",), method=method)
    spec = spec_of(Case("single"), checkpoints, tokens, adapter, "plain", adapters) | merged(adapters, dtype)
    train(trainer, spec | {"precision": precision}, tmp_path)
    folder = tmp_path / f"checkpoints/step-{STEPS}"
    ours = open_merged(folder, dtype="auto").state_dict()
    assert {value.dtype for value in ours.values()} == {stored}
    theirs = load_model(checkpoints["plain"]).state_dict()
    factors = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    for name, weight in theirs.items():
        if method == "qlora" and "_proj" in name:
            weight = bitsandbytes.functional.dequantize_4bit(
                *bitsandbytes.functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
            ).bfloat16().float()
        if "up_proj" in name:
            a, b = (factors[f"base_model.model.{name.replace('weight', key)}.weight"].float()
                    for key in ("lora_A", "lora_B"))
            weight = weight + adapters.alpha / adapters.rank * b @ a
            assert (ours[name].float() - weight).abs().max() <= torch.finfo(stored).eps * weight.abs().max()
        else:
            assert torch.equal(ours[name], weight.to(stored)), name


@pytest.mark.parametrize("tensor", ["model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_merge_beyond_the_dtype_is_refused_by_the_tensor(trainer, tensor, checkpoints, tokens, adapter, tmp_path):
    adapters = Adapters(targets=("up_proj",))
    source = copy_with_changed_tensor(checkpoints["plain"], tmp_path / "model", tensor, lambda x: x[0, :2].fill_(7e4))
    spec = spec_of(Case("single"), {"plain": source}, tokens, adapter, "plain", adapters) | merged(adapters, "fp16")
    spec["lora"]["adapter"] = str(adapter("plain", adapters))
    spec["train"]["steps"] = 1
    [process] = start(trainer, spec, tmp_path / "run")
    wait_for([process])
    said = log_file(tmp_path / "run", 0).read_text()
    assert process.returncode == 1 and f"tensor '{tensor}'" in said and "infinite in fp16" in said, said


def test_adapters_beside_a_base_model_are_read(trainer, checkpoints, tokens, adapter, reference, tmp_path):
    adapters = Adapters(rank=3, targets=("v_proj",))
    folder = shutil.copytree(adapter("plain", adapters), tmp_path / "both")
    shutil.copy(checkpoints["plain"] / "model.safetensors", folder)
    spec = Case("single").spec(checkpoints["plain"], tokens, **adapters.keys(folder))
    check(trainer, spec, reference("plain", adapters), tmp_path / "run")


def test_dropout_follows_from_the_seed(trainer, checkpoints, tokens, adapter, tmp_path):
    """Dropout is the same with every strategy. It differs between steps, and evaluations have
    none."""
    spec = spec_of(Case("single"), checkpoints, tokens, adapter, "plain", Adapters())
    spec["lora"]["dropout"] = 0.3
    losses = train(trainer, spec, tmp_path / "single").losses()
    recomputed = spec | {"activation_checkpointing": {"every": 1}}
    assert train(trainer, recomputed, tmp_path / "recomputed").losses() == losses
    part = spec | {"activation_checkpointing": {"every": 1, "what": "attention"}}
    assert train(trainer, part, tmp_path / "part").losses() == losses
    without = spec | {"lora": spec["lora"] | {"dropout": 0.0}}
    assert train(trainer, without, tmp_path / "without").losses() != losses
