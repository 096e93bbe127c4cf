"""Small LLaMA checkpoints as transformers writes them, and tokens to train them on."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import safetensors.torch
import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY_SIZE = 97
SEQUENCE_LENGTH = 13
STEPS = 10
TOTAL_BATCH = 24  # divides by 2, 3 and 4 ranks with accumulation 1 and 2


@dataclass(frozen=True)
class Variant:
    """A checkpoint: what differs from the plain model, and how it is saved."""

    config: dict = field(default_factory=dict)
    shard_size: str = "1GB"


# The plain model's units hold 4,850, 35,750 and 4,900 parameters: none divides by 3, and the blocks
# and the embedding do not divide by 4 either.
PLAIN_CONFIG = dict(
    vocab_size=VOCABULARY_SIZE,
    hidden_size=50,
    intermediate_size=171,
    num_hidden_layers=3,
    num_attention_heads=5,
    num_key_value_heads=5,
    max_position_embeddings=32,
    initializer_range=0.1,  # wide enough that positions and attention matter
)

VARIANTS = {
    "plain": Variant(),
    "grouped_query": Variant(
        dict(
            hidden_size=64,
            intermediate_size=150,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 50000.0},
        )
    ),
    "wide_heads": Variant(dict(head_dim=14)),
    "tied": Variant(dict(tie_word_embeddings=True)),
    "several_files": Variant(shard_size="100KB"),
}


def write_checkpoint(name: str, folder: Path) -> None:
    """Writes the variant's config.json and safetensors, with weights from a fixed seed."""
    variant = VARIANTS[name]
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**{**PLAIN_CONFIG, **variant.config}))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:  # all ones otherwise: a norm left unread would not show
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder, max_shard_size=variant.shard_size)


def copy_with_changed_tensor(
    checkpoint: Path, folder: Path, name: str, change: Callable[[torch.Tensor], object]
) -> Path:
    """Copies a checkpoint of one file; `change` works in place. Returns `folder`."""
    shutil.copytree(checkpoint, folder)
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    change(tensors[name])
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    return folder


def write_tokens(file: Path) -> None:
    """Writes rows for STEPS steps in which every second token follows from the one before."""
    generator = numpy.random.default_rng(3)
    rows = generator.integers(0, VOCABULARY_SIZE, (STEPS * TOTAL_BATCH, SEQUENCE_LENGTH + 1))
    rows[:, 1::2] = (rows[:, 0::2] * 7 + 3) % VOCABULARY_SIZE
    numpy.save(file, rows.astype(numpy.int32))
