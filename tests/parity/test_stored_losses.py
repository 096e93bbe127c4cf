"""fsdp-train computes the losses that transformers, PEFT and bitsandbytes computed before
(stored/write.py). Needs none of these packages."""

import json
from pathlib import Path

import pytest
from agreement import assert_close, assert_ranks_agree
from trainer import train

STORED = Path(__file__).with_name("stored")
LOSSES = json.loads((STORED / "losses.json").read_text())
TOLERANCE = 1e-5
OPTIMIZER = dict(kind="adamw", learning_rate=3e-3, weight_decay=0.1, beta1=0.9, beta2=0.95, epsilon=1e-3)
TOKENS = dict(kind="tokens", train=str(STORED / "train.npy"), sequence_length=13, shuffle=False)
ARTICLES = dict(kind="wikihow", train=str(STORED / "articles.csv"), prefix="play: ", input_length=24,
                target_length=10, shuffle=False,
                tokenizer=str(STORED.parents[2] / "experiments/data/chess/tokenizer.model"))

SINGLE = dict(kind="single", ranks=1)
DDP = dict(kind="ddp", ranks=2)
FSDP = dict(kind="fsdp", ranks=2)
OFFLOAD = dict(kind="fsdp", ranks=2, offload="optimizer")
OFFLOAD_ALL = dict(kind="fsdp", ranks=2, offload="parameters")


@pytest.mark.quick
@pytest.mark.parametrize("model, strategy, accumulation, recompute_every", [
    ("llama", SINGLE, 1, 0), ("llama", DDP, 2, 0), ("llama", FSDP, 1, 1), ("llama", OFFLOAD, 2, 0),
    ("llama", OFFLOAD_ALL, 1, 0),
    ("mistral", SINGLE, 2, 1), ("mistral", FSDP, 1, 0),
    ("qwen2", DDP, 1, 0), ("qwen2", FSDP, 2, 0),
    ("qwen3", SINGLE, 1, 0), ("qwen3", OFFLOAD, 1, 1),
    ("t5", SINGLE, 1, 0), ("t5", DDP, 1, 0), ("t5", FSDP, 2, 1),
    ("lora", SINGLE, 1, 0), ("lora", FSDP, 2, 0), ("lora", OFFLOAD, 1, 1),
    ("qlora", SINGLE, 2, 0), ("qlora", DDP, 1, 1), ("qlora", FSDP, 1, 0),
])
def test_losses(trainer, model, strategy, accumulation, recompute_every, tmp_path):
    has_adapters = model in ("lora", "qlora")
    total = 12 if model == "t5" else 24
    spec = {
        "model": {"source": str(STORED / ("llama" if has_adapters else model))},
        "data": ARTICLES if model == "t5" else TOKENS,
        "strategy": strategy,
        "batch": {"size_per_rank": total // strategy["ranks"] // accumulation, "total": total},
        "activation_checkpointing": {"every": recompute_every},
        "optimizer": OPTIMIZER,
        "train": {"steps": len(LOSSES[model]), "seed": 1},
        "device": "cpu",
        "threads_per_rank": 1,
    }
    if has_adapters:
        spec |= {"method": model, "lora": {"rank": 4, "alpha": 8.0, "targets": ["all-linear"],
                                           "adapter": str(STORED / "adapter")}}
    run = train(trainer, spec, tmp_path)
    assert_ranks_agree(run)
    assert_close("loss", LOSSES[model], run.losses(), TOLERANCE)
