"""Does the work of fsdp-train with transformers' LlamaForCausalLM under PyTorch: in one process,
with DDP, or with FSDP2 over gloo. torch.distributed.checkpoint writes checkpoints. Adapters are
PEFT's and 4-bit weights bitsandbytes', both in one process only.

The command line, the environment variables and the events are those of fsdp-train. It reads only
the keys of run.yaml that tests and benchmarks against PyTorch need. Several --spec are trained one
after the other.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy
import torch
import torch.distributed as distributed
import torch.distributed.checkpoint as dcp
import yaml
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaForCausalLM

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = {
    "fp32": {},
    "bf16_mixed": {"parameters": "bf16", "reduction": "fp32"},
    "fp16_mixed": {"parameters": "fp16", "reduction": "fp32"},  # without loss scaling
}


class Events:
    def __init__(self, file: Path):
        self.file = file.open("w", buffering=1)
        self.sequence = 0

    def write(self, kind: str, **figures) -> None:
        event = {"kind": kind, "sequence": self.sequence, "time_unix_ms": time.time() * 1000}
        self.file.write(json.dumps(event | figures) + "\n")
        self.sequence += 1


def fully_shard_options(spec: dict) -> dict:
    strategy, precision = spec["strategy"], spec.get("precision", "fp32")
    if isinstance(precision, str):
        precision = PRECISIONS[precision]
    options = {
        "mesh": init_device_mesh("cpu", (strategy["ranks"],)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=DTYPES.get(precision.get("parameters")),
            reduce_dtype=DTYPES.get(precision.get("reduction")),
        ),
    }
    match strategy.get("sharding", "full_shard"):
        case "shard_grad_op":
            options["reshard_after_forward"] = False
        case "hybrid_shard":
            group = strategy["shard_group_size"]
            options["mesh"] = init_device_mesh("cpu", (strategy["ranks"] // group, group),
                                               mesh_dim_names=("replicate", "shard"))
    if strategy.get("offload") == "parameters":
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    return options


def make_adapted_model(spec: dict) -> torch.nn.Module:
    from peft_reference import load_adapter

    model = load_adapter(Path(spec["model"]["source"]), Path(spec["lora"]["adapter"]),
                         is_trainable=True, method=spec["method"])
    return model.train()


def make_model(spec: dict) -> torch.nn.Module:
    if "method" in spec:
        return make_adapted_model(spec)
    model = LlamaForCausalLM.from_pretrained(spec["model"]["source"], dtype=torch.float32,
                                             attn_implementation="sdpa")
    model.train()
    if spec.get("activation_checkpointing", {}).get("every") == 1:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if spec["strategy"]["kind"] == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    if spec["strategy"]["kind"] == "fsdp":
        options = fully_shard_options(spec)
        for layer in model.model.layers:
            fully_shard(layer, **options)
        fully_shard(model, **options)
    return model


def make_optimizer(spec: dict, model: torch.nn.Module) -> torch.optim.Optimizer:
    keys = spec["optimizer"]
    return torch.optim.AdamW([parameter for parameter in model.parameters()
                              if parameter.requires_grad], lr=keys["learning_rate"],
                             betas=(keys.get("beta1", 0.9), keys.get("beta2", 0.95)),
                             eps=keys.get("epsilon", 1e-8), weight_decay=keys.get("weight_decay",
                                                                                  0.0), fused=True)


class Trainer:
    def __init__(self, spec: dict):
        self.ranks = spec["strategy"]["ranks"]
        self.first_row = int(os.environ["RANK"]) * spec["batch"]["size_per_rank"]
        self.batch = spec["batch"]["size_per_rank"]
        self.rows = torch.from_numpy(numpy.load(spec["data"]["train"]).astype(numpy.int64))
        self.model = make_model(spec)
        self.optimizer = make_optimizer(spec, self.model)

    def step(self, step: int) -> float:
        """Takes a step. Returns its loss."""
        first = (step - 1) * self.ranks * self.batch + self.first_row
        rows = self.rows[first : first + self.batch]
        logits = self.model(input_ids=rows[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), rows[:,
                                                                                    1:].flatten())
        del logits
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        mean = loss.detach()
        if self.ranks > 1:
            distributed.all_reduce(mean)
        return mean.item() / self.ranks

    def state(self) -> dict:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, folder: Path) -> None:
        dcp.save(self.state(), checkpoint_id=folder)

    def load(self, folder: Path) -> None:
        state = self.state()
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])


def elapsed_ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def train(file: Path, attempt: int) -> None:
    spec = yaml.safe_load(file.read_text())
    rank, run = int(os.environ["RANK"]), file.parent
    events = Events(run / f"attempt-{attempt}" / f"events.rank{rank}.jsonl")
    trainer = Trainer(spec)
    first_step, load_time_ms = 1, 0.0
    if "resume" in spec:
        start = time.perf_counter()
        trainer.load(Path(spec["resume"]))
        load_time_ms = elapsed_ms(start)
        first_step += int(spec["resume"].rpartition("-")[2])
    events.write("run_started", rank=rank, load_time_ms=load_time_ms)
    checkpoint_every = spec.get("checkpoint", {}).get("every_steps")
    for step in range(first_step, spec["train"]["steps"] + 1):
        start = time.perf_counter()
        loss = trainer.step(step)
        events.write("step", step=step, loss=loss, step_time_ms=elapsed_ms(start))
        if checkpoint_every and step % checkpoint_every == 0:
            start = time.perf_counter()
            trainer.save(run / "checkpoints" / f"step-{step}")
            events.write("checkpoint", step=step, write_time_ms=elapsed_ms(start))
    events.write("run_finished", steps=spec["train"]["steps"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=Path, nargs="+", required=True)
    parser.add_argument("--attempt", type=int, required=True)
    arguments = parser.parse_args()
    if int(os.environ["WORLD_SIZE"]) > 1:
        distributed.init_process_group("gloo")
    for file in arguments.spec:
        train(file, arguments.attempt)
    if distributed.is_initialized():
        distributed.barrier()
    os._exit(0)  # in an orderly exit, gloo's threads sometimes abort or hang


if __name__ == "__main__":
    main()
