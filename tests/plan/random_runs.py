"""Random specifications, with all keys that change memory."""

import copy
import csv
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHESS = ROOT / "experiments/data/chess"
VOCABULARY = 1024


def write_articles(file: Path, draw: random.Random, count: int = 600) -> Path:
    """Writes articles of one to many words."""
    words = ["e4", "Nf3", "d5", "O-O", "Qxf7#", "1.", "2.", "Bb5", "1-0"]
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["headline", "title", "text"])
        for _ in range(count):
            rows.writerow([" ".join(draw.choices(words, k=draw.randint(1, 9))), "none",
                           " ".join(draw.choices(words, k=draw.randint(1, 40)))])
    return file


def decoder(draw: random.Random) -> dict:
    key_value_heads = draw.choice([1, 2, 4])
    architecture = draw.choice(["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
                                "MistralForCausalLM"])
    config = {
        "architecture": architecture,
        "num_hidden_layers": draw.randint(1, 5),
        "hidden_size": 4 * draw.choice([8, 12, 20, 32]),
        "intermediate_size": draw.choice([40, 96, 170, 256]),
        "num_attention_heads": 4,
        "num_key_value_heads": key_value_heads,
        "vocab_size": VOCABULARY + draw.choice([0, 8, 1000, 5000]),
        "max_position_embeddings": 512,
    }
    if draw.random() < 0.3:
        config["tie_word_embeddings"] = True
    if key_value_heads == 2:
        config["padding_idx"] = 1
    if architecture == "MistralForCausalLM" and draw.random() < 0.5:
        config["sliding_window"] = draw.choice([8, 20, 500])
    return config


def encoder_decoder(draw: random.Random) -> dict:
    return {"architecture": "T5ForConditionalGeneration", "num_hidden_layers": draw.randint(1, 3),
            "hidden_size": draw.choice([32, 48, 64]), "intermediate_size": draw.choice([40, 96]),
            "num_attention_heads": draw.choice([2, 4]), "head_dim": draw.choice([8, 10, 16]),
            "vocab_size": VOCABULARY + draw.choice([0, 3000]),
            "tie_word_embeddings": draw.random() < 0.5, "dropout_rate": draw.choice([0.0, 0.1]),
            "feed_forward_proj": draw.choice(["relu", "gated-gelu"])}


def data(draw: random.Random, is_pairs: bool, articles: Path) -> dict:
    rows = draw.choice(["pad", "pad_to_longest"] + ([] if is_pairs else ["pack"]))
    if is_pairs:
        return {"kind": "wikihow", "train": str(articles), "tokenizer": str(CHESS / "tokenizer.model"),
                "prefix": "play: ", "input_length": draw.choice([16, 64]),
                "target_length": draw.choice([8, 20]), "rows": rows}
    if draw.random() < 0.5:  # lengths vary much; packed rows have few or many documents
        return {"kind": "text", "train": str(articles), "tokenizer": str(CHESS / "tokenizer.model"),
                "sequence_length": draw.choice([24, 64, 150]), "rows": rows}
    return {"kind": "chess", "sequence_length": draw.choice([24, 64, 150]), "rows": rows}


def strategy(draw: random.Random) -> dict:
    kind = draw.choice(["single", "ddp", "fsdp", "fsdp", "fsdp"])
    chosen = {"kind": kind, "ranks": 1 if kind == "single" else draw.randint(1, 4),
              "offload": draw.choice(["none", "none", "optimizer", "parameters"])}
    if kind == "fsdp":
        shardings = ["full_shard", "full_shard", "shard_grad_op", "no_shard"]
        if chosen["ranks"] in (2, 4):
            shardings.append("hybrid_shard")
            chosen["shard_group_size"] = 2
        chosen["sharding"] = draw.choice(shardings)
        if chosen["sharding"] != "hybrid_shard":
            chosen.pop("shard_group_size", None)
        chosen["prefetch"] = draw.choice([0, 1, 1, 2, 9])
        chosen["limit_all_gathers"] = draw.random() < 0.7
        chosen["accumulate"] = draw.choice(["sharded", "unsharded"])
        chosen["wrap"] = draw.choice(["transformer_block", "none", {"blocks": 2}, {"min_parameters": 30000}])
    return chosen


def optimizer(draw: random.Random, offload: str) -> dict:
    chosen = {"kind": draw.choice(["adamw", "adamw", "adam", "sgd", "adadelta"]), "learning_rate": 1e-4}
    choice = draw.random()
    if choice < 0.3:
        chosen["gradient_clip_norm"] = 1.0
    elif choice < 0.5:
        chosen["in_backward"] = True
    if draw.random() < 0.2 and chosen["kind"].startswith("adam"):
        chosen |= {"state_dtype": draw.choice(["bf16", "int8"]),
                   "rounding": draw.choice(["nearest", "stochastic"])}
    return chosen


def with_value(spec: dict, key: str, value: int) -> dict:
    """Returns a copy with another value of one key, such as data.sequence_length."""
    changed = copy.deepcopy(spec)
    *sections, name = key.split(".")
    section = changed
    for part in sections:
        section = section[part]
    section[name] = value
    return changed


def on_gpu(spec: dict) -> dict:
    """Returns a copy for a GPU, with a limit on gathered units, which otherwise depend on the GPU's
    speed. Does not merge adapters: a fake GPU's numbers are not finite, and merging refuses these."""
    if "checkpoint" in spec:
        kept = {key: value for key, value in spec["checkpoint"].items() if not key.startswith("merge")}
        spec = spec | {"checkpoint": kept}
    strategy = spec["strategy"] | ({"limit_all_gathers": True} if spec["strategy"]["kind"] == "fsdp" else {})
    return spec | {"strategy": strategy, "device": "cuda"}


def in_fp64(spec: dict) -> dict:
    """Returns the run in fp64, without what excludes it."""
    kept = {key: value for key, value in spec["optimizer"].items() if key not in ("state_dtype", "rounding")}
    method = {"method": "lora"} if spec.get("method") == "qlora" else {}
    return spec | method | {"precision": "fp64", "optimizer": kept, "device": "cpu"}


def random_spec(draw: random.Random, articles: Path) -> dict:
    is_pairs = draw.random() < 0.25
    chosen_strategy = strategy(draw)
    accumulation = draw.choice([1, 1, 2, 3, 5])
    chosen_optimizer = optimizer(draw, chosen_strategy["offload"])
    if accumulation > 1 or draw.random() < 0.1:
        chosen_optimizer.pop("in_backward", None)
    precision = draw.choice(["fp32", "fp32", "bf16_true", "bf16_mixed", "fp16_mixed"])
    if precision == "fp16_mixed":
        chosen_optimizer.pop("in_backward", None)
    spec = {
        "model": {"config": encoder_decoder(draw) if is_pairs else decoder(draw)},
        "data": data(draw, is_pairs, articles),
        "strategy": chosen_strategy,
        "batch": {"size_per_rank": draw.randint(1, 5), "gradient_accumulation_steps": accumulation},
        "precision": precision,
        "activation_checkpointing": draw.choice(
            [{}, {"every": 1}, {"every": 2}, {"every": 1, "what": "mlp"}, {"every": 1, "what": "attention"}]),
        "optimizer": chosen_optimizer,
        "train": {"steps": draw.randint(2, 3), "warmup_steps_excluded": 0, "seed": draw.randint(0, 100),
                  "on_non_finite": draw.choice(["stop", "stop", "skip"])},
        "device": "cpu",
        "threads_per_rank": 1,
    }
    if chosen_optimizer.get("in_backward"):
        spec["train"]["on_non_finite"] = "stop"
    if draw.random() < 0.4:
        spec["method"] = draw.choice(["lora", "qlora"])
        spec["lora"] = {"rank": draw.choice([1, 3, 8]), "dropout": draw.choice([0.0, 0.0, 0.1]),
                        "targets": draw.choice([["all-linear"], ["attention"], ["mlp"]])}
    if draw.random() < 0.3:
        spec["evaluation"] = {"every_steps": 2, "size_per_rank": draw.choice([1, 4, 12]), "batches": 2,
                              "fraction": 0.2}
    if draw.random() < 0.3:
        spec["checkpoint"] = {"at_end": True, "state_dict": draw.choice(["full", "sharded"])}
        if "method" in spec and spec["checkpoint"]["state_dict"] == "full":
            spec["checkpoint"] |= {"merge": True, "merge_dtype": draw.choice(["fp32", "bf16"])}
    return spec
