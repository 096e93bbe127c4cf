"""The reference: transformers' models trained by PyTorch in one process.

Ranks, accumulation and checkpointing do not change the losses. So all strategies share one
reference per checkpoint, precision, clipping and optimizer.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from transformers import AutoModelForCausalLM

from checkpoints import STEPS, TOTAL_BATCH

# With a small epsilon, AdamW's steps hardly depend on the scale of gradients. A sum instead of a
# mean would then pass. With this epsilon, a factor of two changes the losses by 5e-3 after ten
# steps.
OPTIMIZER = dict(learning_rate=3e-3, weight_decay=0.1, beta1=0.9, beta2=0.95, epsilon=1e-3)

# The gradients' norms run from 1.8 down to 1.3: some steps are clipped and some are not.
CLIP_NORM = 1.5


@dataclass(frozen=True)
class Reference:
    losses: list[float]
    gradient_norms: list[float]


def adamw_of(model: torch.nn.Module, optimizer: dict = OPTIMIZER) -> torch.optim.AdamW:
    """Returns an AdamW for the trained parameters of the model."""
    return torch.optim.AdamW([parameter for parameter in model.parameters()
                              if parameter.requires_grad], lr=optimizer["learning_rate"],
                             betas=(optimizer["beta1"], optimizer["beta2"]),
                             eps=optimizer["epsilon"], weight_decay=optimizer["weight_decay"])


def train_reference(checkpoint: Path, tokens: Path, clip_norm: float | None, dtype: torch.dtype,
                    optimizer: dict) -> Reference:
    """Trains STEPS steps of TOTAL_BATCH rows, in order. The loss is the sum of cross entropies over
    the whole batch, divided by its number of labels."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype)
    rows = torch.from_numpy(numpy.load(tokens).astype(numpy.int64))
    adamw = adamw_of(model, optimizer)
    losses, norms = [], []
    for batch in rows.split(TOTAL_BATCH)[:STEPS]:
        logits = model(batch[:, :-1], use_cache=False).logits
        labels = batch[:, 1:]
        cross_entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1).to(torch.promote_types(dtype, torch.float32)),
                                                          labels.flatten(), reduction="sum")
        loss = cross_entropy / labels.numel()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm or float("inf"))
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
        norms.append(norm.item())
    return Reference(losses, norms)
