"""Records what steps of a PyTorch training script compute, in the files that train.fingerprint_steps writes.
`fsdp-run diverge RUN FOLDER` then tells where the two trainings first differ. Copy this file beside your script. It
changes nothing that a step computes.

    from fingerprints import Fingerprints

    fingerprints = Fingerprints(model, optimizer, "fingerprints", steps=range(1, 9))
    for step, batches in enumerate(data, start=1):
        with fingerprints.step(step):                # on every rank; writes a file at its end
            for batch in batches:                    # this rank's micro-batches
                fingerprints.batch(**batch)          # right before the model reads them
                model(**batch).loss.backward()
            fingerprints.gradients()                 # before they are clipped
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            fingerprints.gradient_norm(norm)         # may be left out
            optimizer.step()
            optimizer.zero_grad()

- Models: transformers' Llama, Mistral, Qwen2 and Qwen3, and PEFT's LoRA of them. Rows are padded on the right.
- Wrappers: DDP, FSDP2 (fully_shard), torch.compile, activation checkpointing. Make Fingerprints after them. Not FSDP1,
  nor what trains copies of the parameters, as DeepSpeed's ZeRO does.
- Without gradients(), the gradients are those that optimizer.step() reads. A GradScaler's unscale_() comes before it.
- fsdp-run's loss is the sum over the labels of all ranks and micro-batches, divided by their number. DDP and FSDP2
  take the mean of the ranks' gradients, so their loss is that times the number of ranks.
"""

import json
import math
import os
import re
from collections.abc import Container
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
import torch.distributed as distributed
from torch.distributed.tensor import DTensor, Shard

NO_LABEL = -100
LANES = 8
PERIOD = 16381 * 64  # of the signs
WRAPPERS = {"module", "_orig_mod", "_checkpoint_wrapped_module"}


class Fingerprints:
    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: str | Path,
                 steps: Container[int], dtype: torch.dtype | None = None):
        """Writes files into `folder` in each of these steps. `dtype` is autocast's, by default the parameters'."""
        while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):  # Accelerate wraps it
            optimizer = optimizer.optimizer
        self._optimizer, self._folder, self._steps, self._is_recording = optimizer, Path(folder), steps, False
        if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
            raise ValueError("the model is wrapped with FSDP1; wrap it with fully_shard (FSDP2)")
        stepped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not stepped <= {id(parameter) for parameter in model.parameters()}:
            raise ValueError("the optimizer steps tensors that are not the model's parameters; "
                             "make the optimizer, then Fingerprints, after the model is wrapped")
        self._parameters = {our_name(name): parameter for name, parameter in model.named_parameters()
                            if parameter.requires_grad and id(parameter) in stepped}
        own = max(torch.finfo(parameter.dtype).eps / 2 for parameter in self._parameters.values())
        compute = torch.finfo(dtype).eps / 2 if dtype else own
        self._begin = {"format": "fsdp-run fingerprints", "version": 1, "resumed_from_step": 0, "recomputes": False,
                       "roundoff": {"compute": compute, "reduction": own, "parameters": own, "states": own}}
        self._modules = set()
        for name, module in model.named_modules():
            if re.fullmatch(r"model\.(embed_tokens|layers\.\d+)", our_name(name)):
                self._modules.add(our_name(name))
                module.register_forward_hook(self._forward_hook(our_name(name)))
        if not self._modules:
            raise ValueError("the model has no modules model.embed_tokens and model.layers.N")
        optimizer.register_step_pre_hook(lambda *_: self._before_optimizer())
        optimizer.register_step_post_hook(lambda *_: self._after_optimizer())

    @contextmanager
    def step(self, step: int):
        """Records the step that is taken inside, if it is one of the steps."""
        if step not in self._steps:
            return (yield)
        self._is_recording, self._has_gradients, self._is_stepped = True, False, False
        self._added, self._rows, self._lengths, self._unread = [], 0, [], set()
        try:
            yield
            self._check_batch_is_read()
            if not self._is_stepped:  # it was left out
                self._before_optimizer()
                self._after_optimizer()
            self._write(step)
        finally:
            self._is_recording = False

    def batch(self, input_ids: torch.Tensor, labels: torch.Tensor, attention_mask: torch.Tensor | None = None,
              **_) -> None:
        """Records the rows [batch, tokens] of the micro-batch that the model reads next. The labels are those that
        transformers' models take: label t is token t itself, or -100."""
        if not self._is_recording:
            return
        if attention_mask is not None and attention_mask.dim() == 2 and not attention_mask[:, 0].all():
            raise ValueError("rows are padded on the left; pad them on the right, as fsdp-run does")
        self._check_batch_is_read()
        self._unread = set(self._modules)  # they are yet to read the micro-batch
        self._rows, self._shape = self._rows + len(self._lengths), input_ids.shape
        next_labels = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=NO_LABEL)
        self._lengths = [1 + row.nonzero()[-1].item() if row.any() else 0 for row in next_labels != NO_LABEL]
        for name, values in (("input_ids", input_ids), ("labels", next_labels)):
            self._add_rows(name, values.unsqueeze(2))

    def gradients(self) -> None:
        """Records the gradients of all micro-batches and ranks."""
        if self._is_recording and not self._has_gradients:
            self._has_gradients = True
            for name, parameter in self._parameters.items():
                if parameter.grad is not None:
                    self._add_part("gradient", parameter.grad, name)

    def gradient_norm(self, norm: torch.Tensor | float) -> None:
        """Records the norm of the gradients of all parameters, before they are clipped."""
        if self._is_recording:
            norm = norm.full_tensor() if isinstance(norm, DTensor) else torch.as_tensor(norm)
            self._add("gradient_norm", sums_of(norm.detach().reshape(1), 0), 1)

    def _forward_hook(self, name: str):
        @torch.compiler.disable
        def record(module, inputs, output) -> None:
            if self._is_recording and name in self._unread:  # else it is recomputed, or evaluated
                self._unread.remove(name)
                value = output[0] if isinstance(output, tuple) else output
                if value.shape[:2] != self._shape:
                    raise ValueError(f"{name} gives {list(value.shape)} for input_ids {list(self._shape)}")
                self._add_rows("activation", value.detach(), name)
        return record

    def _check_batch_is_read(self) -> None:
        if self._unread:
            raise RuntimeError(f"{min(self._unread)} has not read the micro-batch; call batch() right before the model")

    def _before_optimizer(self) -> None:
        if not self._is_recording:
            return
        if self._is_stepped:
            raise RuntimeError("the optimizer takes a second step within step()")
        self._is_stepped = True
        self.gradients()
        self._had_state = self._add_weights_and_states("weight", "state")

    def _after_optimizer(self) -> None:
        if self._is_recording:
            for name, state in sorted(self._add_weights_and_states("new_weight", "new_state") - self._had_state):
                before = torch.zeros_like(self._optimizer.state[self._parameters[name]][state])
                self._add_part("state", before, name, state)

    def _add_weights_and_states(self, weight: str, state: str) -> set[tuple[str, str]]:
        """Returns the parameters' names with their states'. The optimizer's first step makes states."""
        states = set()
        for name, parameter in self._parameters.items():
            self._add_part(weight, parameter, name)
            for key, value in self._optimizer.state.get(parameter, {}).items():
                if key != "step" and isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                    self._add_part(state, value, name, key)
                    states.add((name, key))
        return states

    def _add_rows(self, of: str, values: torch.Tensor, name: str = "") -> None:
        for row, tokens in enumerate(self._lengths):
            if tokens > 0:
                value = values[row, :tokens]
                self._add(of, sums_of_row(value), value.numel(), name, row=self._rows + row)

    def _add_part(self, of: str, tensor: torch.Tensor, name: str, state: str = "") -> None:
        part, begin = local_part(tensor.detach())
        if part.numel() > 0:
            self._add(of, sums_of(part.flatten(), begin), part.numel(), name, state, begin=begin)

    def _add(self, of: str, sums: torch.Tensor, numel: int, name="", state="", row=None, begin=0) -> None:
        self._added.append(({"of": of, "name": name, "state": state, "row": row, "begin": begin, "numel": numel}, sums))

    def _write(self, step: int) -> None:
        rank, ranks = (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)
        lines = [self._begin | {"step": step, "rank": rank, "ranks": ranks}]
        for fingerprint, sums in self._added:
            figures = sums.tolist()
            is_finite = all(map(math.isfinite, figures))
            total, squares, *projections = figures if is_finite else [0.0] * len(figures)
            sums = {"sum": total, "square_sum": squares, "projections": projections}
            lines.append(fingerprint | {"is_finite": is_finite} | sums)
        lines.append({"fingerprints": len(self._added)})
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"step-{step}.rank{rank}.jsonl"
        unfinished = file.with_name(f".{file.name}.new")
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.replace(unfinished, file)


def our_name(name: str) -> str:
    """Returns fsdp-run's name of a module or parameter: without wrappers. Adapters have the names in PEFT's files."""
    name = ".".join(part for part in name.split(".") if part not in WRAPPERS)
    if ".lora_" in name:
        return re.sub(r"(\.lora_[AB])\.[^.]+", r"\1", name)
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


def local_part(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Returns this rank's part of a tensor, and the index of its first element in the tensor."""
    if not isinstance(tensor, DTensor):
        return tensor, 0
    cut = [dim for dim, how in enumerate(tensor.placements) if not how.is_replicate()]  # of the mesh
    if len(cut) != 1 or type(tensor.placements[cut[0]]) is not Shard or tensor.placements[cut[0]].dim != 0:
        return tensor.full_tensor(), 0  # whole, or a part that is not one range
    rows, mesh = tensor.shape[0], tensor.device_mesh
    first = min(rows, -(-rows // mesh.size(cut[0])) * mesh.get_local_rank(cut[0]))  # as torch.chunk
    return tensor.to_local(), first * (tensor.numel() // rows)


def splitmix64(index: int) -> int:
    """Returns number `index` of the generator SplitMix64 with the seed 0."""
    value = (index + 1) * 0x9E3779B97F4A7C15 % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


@cache
def signs_on(device: torch.device) -> torch.Tensor:
    """Returns the signs, 1 or -1, of a period of elements."""
    words = [word - (word >> 63 << 64) for word in map(splitmix64, range(PERIOD // 64))]  # as signed numbers
    bits = torch.tensor(words).unsqueeze(1) >> torch.arange(64) & 1
    return (1 - 2 * bits).flatten().double().to(device)


def sums_of(part: torch.Tensor, begin: int) -> torch.Tensor:
    """Returns [2 + LANES] of the flat part of a tensor that begins at element `begin`: its sum, its sum of squares,
    and for each k the sum of the signed elements i with i % 8 = k."""
    sums = torch.zeros(2 + LANES, dtype=torch.float64, device=part.device)
    while part.numel() > 0:
        values, part = part[:PERIOD - begin % PERIOD].double(), part[PERIOD - begin % PERIOD:]
        signed = values * signs_on(values.device)[begin % PERIOD:][:len(values)]
        before = begin % LANES
        sums[0] += values.sum()
        sums[1] += values.square().sum()
        sums[2:] += torch.nn.functional.pad(signed, (before, -(before + len(signed)) % LANES)).view(-1, LANES).sum(0)
        begin += len(values)
    return sums


def sums_of_row(row: torch.Tensor) -> torch.Tensor:
    """Returns the same of a row [tokens, width]. But sum k has the tokens t with t * 8 // tokens = k."""
    tokens, width = row.shape
    ends = [-(-k * tokens // LANES) for k in range(LANES + 1)]
    sums = torch.stack([sums_of(row[first:last].flatten(), first * width) for first, last in zip(ends, ends[1:])])
    return torch.cat([sums[:, :2].sum(0), sums[:, 2:].sum(1)])
