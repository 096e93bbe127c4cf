"""Trains transformers' models and PEFT's adapters as others do, in one process, with DDP, or with FSDP2. Records the
steps with docs/fingerprints.py. Several specifications are trained one after the other. Each is a JSON file with the
fields of Spec."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = map(str, (ROOT / "docs", ROOT / "tests/parity"))

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from fingerprints import Fingerprints  # noqa: E402
from peft_reference import load_adapter, load_model  # noqa: E402
from reference import adamw_of  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.nn.utils.rnn import pad_sequence  # noqa: E402


@dataclass(frozen=True)
class Spec:
    wrapper: str | None  # ddp or fsdp2
    source: str
    adapter: str | None
    optimizer: dict
    clip_norm: float | None
    rows: str  # JSON: lists of input_ids and of labels, as transformers takes them
    size_per_rank: int
    accumulation: int
    steps: int
    checkpointing: bool
    folder: str  # for fingerprints
    fault: str | None = None  # mean_of_means, local_norm or other_row


def make_model(spec: Spec) -> torch.nn.Module:
    if spec.adapter:
        model = load_adapter(Path(spec.source), Path(spec.adapter), is_trainable=True)
    else:
        model = load_model(Path(spec.source))
    model.train()
    if spec.checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if spec.wrapper == "ddp":
        return DistributedDataParallel(model)
    if spec.wrapper == "fsdp2":
        for layer in (model.get_base_model() if spec.adapter else model).model.layers:
            fully_shard(layer)
        fully_shard(model)
    return model


class Rows:
    """The rows of each step. Rank 0 has the first ones."""

    def __init__(self, spec: Spec, rank: int, ranks: int):
        self.rows = [[torch.tensor(part) for part in row] for row in json.loads(Path(spec.rows).read_text())]
        self.size, self.accumulation, self.rank = spec.size_per_rank, spec.accumulation, rank
        self.of_rank = self.size * self.accumulation
        self.total = self.of_rank * ranks
        if spec.fault == "other_row":
            self.rows[0], self.rows[self.total] = self.rows[self.total], self.rows[0]

    def label_count(self, step: int) -> int:
        """Returns the number of labels of all ranks."""
        rows = self.rows[(step - 1) * self.total:step * self.total]
        return sum(int((labels[1:] != -100).sum()) for _, labels in rows)

    def batches(self, step: int):
        first = (step - 1) * self.total + self.rank * self.of_rank
        for begin in range(first, first + self.of_rank, self.size):
            ids, labels = zip(*self.rows[begin:begin + self.size])
            yield {"input_ids": pad_sequence(ids, batch_first=True), "labels": pad_sequence(labels, True, -100),
                   "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], True)}


def clip(model: torch.nn.Module, max_norm: float, fault: str | None) -> torch.Tensor:
    """Clips the gradients. Returns their norm."""
    if fault != "local_norm":
        return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    parts = [parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
             for parameter in model.parameters()]
    norm = torch.nn.utils.get_total_norm(parts)
    for part in parts:
        part.mul_((max_norm / (norm + 1e-6)).clamp(max=1))
    return norm


def train(spec: Spec, rank: int = 0, ranks: int = 1) -> None:
    model, rows = make_model(spec), Rows(spec, rank, ranks)
    optimizer = adamw_of(model, spec.optimizer)
    fingerprints = Fingerprints(model, optimizer, spec.folder, steps=range(1, spec.steps + 1))
    for step in range(1, spec.steps + 1):
        with fingerprints.step(step):
            for batch in rows.batches(step):
                fingerprints.batch(**batch)
                if spec.fault == "mean_of_means":
                    loss = model(**batch).loss / spec.accumulation
                else:
                    loss = model(**batch, num_items_in_batch=rows.label_count(step)).loss * ranks
                loss.backward()
            fingerprints.gradients()
            if spec.clip_norm is not None:
                fingerprints.gradient_norm(clip(model, spec.clip_norm, spec.fault))
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    for file in sys.argv[1:]:
        train(Spec(**json.loads(Path(file).read_text())), distributed.get_rank(), distributed.get_world_size())
    distributed.barrier()
    os._exit(0)  # in an orderly exit, gloo's threads sometimes abort or hang


if __name__ == "__main__":
    main()
