#!/usr/bin/env python3
"""Compares right runs with runs of a broken trainer, by `fsdp-run diverge`, and counts the faults that it names. The
broken trainer is this source with breaks.patch; the environment variable FSDP_BREAK chooses the fault. Run by hand, on
a copy of the source:

    git apply tests/benchmark/breaks/breaks.patch    # and build it as build/broken
    .venv/bin/python tests/benchmark/breaks/thirty_breaks.py --trainer build/release/fsdp-train \\
        --broken build/broken/fsdp-train --runner build/release/fsdp-run
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("parity", ".")]
from trainer import start, wait_until_well_ended

MODEL = {"num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 128}
SPEC = {"model": {"config": MODEL}, "data": {"kind": "chess", "sequence_length": 128, "rows": "pad"},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
        "train": {"steps": 4, "warmup_steps_excluded": 0, "fingerprint_steps": ["1-4"]},
        "device": "cpu", "threads_per_rank": 1}
CLIPPED = {"optimizer": SPEC["optimizer"] | {"gradient_clip_norm": 0.5}}


def single(accumulation: int = 1) -> dict:
    return {"strategy": {"kind": "single", "ranks": 1},
            "batch": {"size_per_rank": 8 // accumulation, "gradient_accumulation_steps": accumulation}}


def ranks(kind: str, count: int = 2, accumulation: int = 1, **more) -> dict:
    return {"strategy": {"kind": kind, "ranks": count} | more,
            "batch": {"size_per_rank": 8 // count // accumulation, "gradient_accumulation_steps": accumulation}}


@dataclass(frozen=True)
class Break:
    """A fault, and what `diverge` must say of it: the first step, the place and the cause, as patterns."""
    name: str
    broken: dict  # the strategy of the broken run
    place: str
    cause: str
    step: int = 1
    same: dict = field(default_factory=dict)  # keys of both runs
    right: dict = field(default_factory=single)
    resumes_after: int = 0  # the broken run begins anew from the checkpoint of this step


LORA = {"method": "lora", "lora": {"rank": 4, "dropout": 0.1}}
DDP, FULL = ranks("ddp"), ranks("fsdp")
HYBRID = ranks("fsdp", 4, sharding="hybrid_shard", shard_group_size=2)
RECOMPUTED = {"activation_checkpointing": {"every": 1}}
BREAKS = [
    Break("local_label_count", DDP, r"the loss", "constant factor"),
    Break("mean_of_micro_batches", ranks("ddp", 2, 2), r"gradient of the output of model.layers.2", "constant factor"),
    Break("filler_labels", FULL, "tokens of a row", "labels end elsewhere"),
    Break("dropout_seed_of_rank", DDP, r"gradient of .*lora_B.weight before its reduction", "something else", same=LORA),
    Break("row_skipped_at_resume", FULL, "tokens of a row", "other rows", 4),
    Break("missing_all_reduce", DDP, r"gradient of model.layers.0.*after its reduction", "reduction is missing"),
    Break("missing_all_reduce", HYBRID, r"gradient of model.layers.0.*after its reduction", "reduction is missing"),
    Break("all_reduce_twice", DDP, r"gradient of model.layers.1.*after its reduction", "sum for a mean"),
    Break("all_reduce_in_bf16", DDP, r"gradient of .*after its reduction", "rounding"),
    Break("reduce_scatter_in_bf16", FULL, r"gradient of .*after its reduction", "rounding"),
    Break("mean_for_sum", FULL, r"gradient of .*after its reduction", "sum for a mean"),
    Break("stale_weights", FULL, r"weight of model.layers.0.*that (forward|backward) reads", "stale", 2),
    Break("gather_too_early", FULL, r"weight of model.layers.1.*that forward reads", "other weights than"),
    Break("divided_by_accumulation", ranks("fsdp", 2, 2), r"gradient of .*after its reduction", "sum for a mean"),
    Break("micro_batch_dropped", ranks("fsdp", 2, 2), r"gradient of model.layers.0.*after its reduction", "reduction"),
    Break("window", FULL, r"output of model.layers.0", "mask"),
    Break("documents_mixed", FULL, r"output of model.layers.0", "another mask",
          same={"data": SPEC["data"] | {"rows": "pack", "sequence_length": 512},
                "model": {"config": MODEL | {"max_position_embeddings": 512}}}),
    Break("bias_left_out", DDP, r"output of model.layers.0", "only some ranks", 2,
          same={"model": {"config": MODEL | {"attention_bias": True}}}),
    Break("dropout_of_recomputation", FULL | RECOMPUTED, "gradient of", "recomputation", 1, same=LORA),
    Break("lora_scale", FULL, r"output of model.layers.0", "rule of this unit", 2,
          same={"method": "lora", "lora": {"rank": 4}}),
    Break("nf4_block", FULL, r"output of model.layers.0", "rule of this unit", 1,
          same={"method": "qlora", "lora": {"rank": 4}}),
    Break("norm_epsilon", DDP, r"the loss", "head"),
    Break("last_token_without_gradient", FULL, r"gradient of model.embed_tokens.weight before", "rule|factor"),
    Break("tied_twice", FULL, r"gradient of model.embed_tokens.weight before", "constant factor",
          same={"model": {"config": MODEL | {"tie_word_embeddings": True}}}),
    Break("norm_decayed", FULL, r"update of .*norm", "weight decay|update", 1,
          same={"optimizer": SPEC["optimizer"] | {"weight_decay": 0.1, "no_decay": ["norm"]}}),
    Break("betas", DDP, r"exp_avg of", "state"),
    Break("beta2", FULL, r"exp_avg_sq of", "state"),
    Break("epsilon", FULL, r"update of", "update"),
    Break("int8_block", FULL, r"exp_avg_(codes|absmax) of", "state", 2,
          same={"optimizer": SPEC["optimizer"] | {"state_dtype": "int8"}}),
    Break("local_norm", FULL, r"gradient norm", "clipping", same=CLIPPED),
    Break("clip_without_maximum", FULL, r"divisor", "clipping",
          same={"optimizer": SPEC["optimizer"] | {"gradient_clip_norm": 1e3}}),
    Break("schedule_off_by_one", DDP, r"update of", "update",
          same={"schedule": {"kind": "linear", "warmup_steps": 2}}),
    Break("stepped_twice", FULL, r"exp_avg of model.layers.1|update of model.layers.1", "state|done twice"),
    Break("last_rank_not_stepped", FULL, r"exp_avg of model.layers.0|update of model.layers.0", "state|update"),
    Break("device_copy_stale", ranks("fsdp", 2, offload="optimizer"),
          r"weight of model.layers.0.*that forward reads", "stale", 2),
    Break("state_lost_at_resume", FULL, r"exp_avg of model.layers.0.* at the step's begin", "resume", 3,
          resumes_after=2),
]


def train(trainer: Path, spec: dict, folder: Path, fault: str = "") -> Path:
    os.environ["FSDP_BREAK"] = fault
    wait_until_well_ended(start(trainer, spec, folder), folder)
    return max(folder.glob("attempt-*/fingerprints"))


def answer(arguments: argparse.Namespace, one: Break) -> str:
    spec = SPEC | one.same
    with tempfile.TemporaryDirectory() as folder:
        right = train(arguments.trainer, spec | one.right, Path(folder) / "right")
        broken = spec | one.broken
        if one.resumes_after:
            first = Path(folder) / "first"
            saved = {"checkpoint": {"every_steps": one.resumes_after}}
            train(arguments.trainer, broken | saved | {"train": spec["train"] | {"steps": one.resumes_after}}, first)
            broken |= {"resume": str(first / "checkpoints" / f"step-{one.resumes_after}")}
        wrong = train(arguments.broken, broken, Path(folder) / "wrong", one.name)
        ended = subprocess.run([arguments.runner, "diverge", right, wrong], capture_output=True, text=True)
    return (ended.stdout + ended.stderr).replace(str(right), "right").replace(str(wrong), "wrong")


def judge(one: Break, text: str) -> list[str]:
    wrong = []
    if not re.search(rf"from step {one.step} on", text):
        wrong.append("step")
    if not re.search(rf"  first  .*{one.place}", text):
        wrong.append("place")
    if not re.search(rf"  cause  .*({one.cause})", text):
        wrong.append("cause")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for program in ("trainer", "broken", "runner"):
        parser.add_argument(f"--{program}", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help="names of faults")
    arguments = parser.parse_args()
    named = 0
    chosen = [one for one in BREAKS if not arguments.only or one.name in arguments.only]
    for one in chosen:
        text = answer(arguments, one)
        wrong = judge(one, text)
        named += not wrong
        print(f"{'named' if not wrong else 'MISSED ' + ' '.join(wrong)}: {one.name}\n{text}", flush=True)
    print(f"{named} of {len(chosen)} named")


if __name__ == "__main__":
    main()
