"""The PyTorch side of the benchmark: transformers' LlamaForCausalLM; single, DDP, FSDP2 over gloo.

One process per rank, told who it is by the environment that torchrun sets. Writes its steps in the
form of fsdp-train's events, so that both sides are read alike.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy
import torch
import torch.distributed as distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaForCausalLM


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategy", choices=["single", "ddp", "fsdp"], required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokens", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True, help="sequences per rank")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--events", type=Path, required=True)
    return parser.parse_args()


def distribute(model: LlamaForCausalLM, strategy: str, ranks: int) -> torch.nn.Module:
    if strategy == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    if strategy == "fsdp":
        mesh = init_device_mesh("cpu", (ranks,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    arguments = parse_arguments()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if ranks > 1:
        distributed.init_process_group("gloo")
    model = LlamaForCausalLM.from_pretrained(
        arguments.checkpoint, dtype=torch.float32, attn_implementation="sdpa"
    )
    model = distribute(model, arguments.strategy, ranks)
    model.train()
    adamw = torch.optim.AdamW(
        model.parameters(), lr=arguments.learning_rate, weight_decay=0.0, betas=(0.9, 0.95),
        fused=True,
    )
    rows = torch.from_numpy(numpy.load(arguments.tokens).astype(numpy.int64))
    with arguments.events.open("w", buffering=1) as events:
        for step in range(arguments.steps):
            first = (step * ranks + rank) * arguments.batch
            batch = rows[first : first + arguments.batch]
            start = time.perf_counter()
            logits = model(input_ids=batch[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), batch[:, 1:].flatten()
            )
            del logits
            loss.backward()
            adamw.step()
            adamw.zero_grad()
            mean_loss = loss.detach()
            if ranks > 1:
                distributed.all_reduce(mean_loss)
            event = {
                "kind": "step",
                "step": step + 1,
                "loss": mean_loss.item() / ranks,
                "step_time_ms": (time.perf_counter() - start) * 1000,
            }
            events.write(json.dumps(event) + "\n")
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
