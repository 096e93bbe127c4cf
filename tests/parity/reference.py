"""The ground truth: transformers' models trained by PyTorch in one process.

Neither the number of ranks nor accumulation nor checkpointing changes what is computed, so there is
one reference per checkpoint, precision, clipping and optimizer, whatever the strategy.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from transformers import AutoModelForCausalLM

from checkpoints import STEPS, TOTAL_BATCH

# AdamW hardly sees a gradient's scale if epsilon is small. A sum in place of a mean would then
# pass. This epsilon makes a factor of two visible at 5e-3 relative after ten steps.
OPTIMIZER = dict(learning_rate=3e-3, weight_decay=0.1, beta1=0.9, beta2=0.95, epsilon=1e-3)

# The gradients' norms run from 1.8 down to 1.3: some steps are clipped and some are not.
CLIP_NORM = 1.5


@dataclass(frozen=True)
class Reference:
    losses: list[float]
    gradient_norms: list[float]


def adamw_of(model: torch.nn.Module, optimizer: dict = OPTIMIZER) -> torch.optim.AdamW:
    """Steps what is trained of the model."""
    return torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=optimizer["learning_rate"],
        betas=(optimizer["beta1"], optimizer["beta2"]),
        eps=optimizer["epsilon"],
        weight_decay=optimizer["weight_decay"],
    )


def train_reference(
    checkpoint: Path, tokens: Path, clip_norm: float | None, dtype: torch.dtype, optimizer: dict
) -> Reference:
    """Trains STEPS steps of TOTAL_BATCH rows in their order. The loss is the sum of the cross
    entropies over the whole batch divided by its number of labels."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype)
    rows = torch.from_numpy(numpy.load(tokens).astype(numpy.int64))
    adamw = adamw_of(model, optimizer)
    losses, norms = [], []
    for batch in rows.split(TOTAL_BATCH)[:STEPS]:
        logits = model(batch[:, :-1], use_cache=False).logits
        labels = batch[:, 1:]
        cross_entropy = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), reduction="sum"
        )
        loss = cross_entropy / labels.numel()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm or float("inf"))
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
        norms.append(norm.item())
    return Reference(losses, norms)
