"""Writes small checkpoints of every family with transformers, and tokens to train them on."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import safetensors.torch
import torch
import transformers

torch.set_num_threads(1)  # for every reference

VOCABULARY_SIZE = 97
SEQUENCE_LENGTH = 13
STEPS = 10
TOTAL_BATCH = 24  # divides by 2, 3 and 4 ranks with accumulation 1 and 2


@dataclass(frozen=True)
class Variant:
    """A checkpoint: what differs from the plain model, and how it is saved."""

    config: dict = field(default_factory=dict)
    architecture: str = "LlamaForCausalLM"
    shard_size: str = "1GB"


# The plain model's units hold 4,850, 35,750 and 4,900 parameters. None divides by 3. The blocks and
# the embedding do not divide by 4 either.
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
    "padding": Variant(dict(pad_token_id=3)),
    "tied_padding": Variant(dict(pad_token_id=3, tie_word_embeddings=True)),
    "several_files": Variant(shard_size="100KB"),
    # There are 5 frequencies: 2 stay, 1 is divided and 2 are interpolated.
    "llama3_rope": Variant(
        dict(
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 8.0,
                "low_freq_factor": 0.25,
                "high_freq_factor": 1.0,
                "original_max_position_embeddings": 16,
            }
        )
    ),
    "linear_rope": Variant(
        dict(rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0})
    ),
    "biases": Variant(dict(attention_bias=True, mlp_bias=True)),
    "mistral": Variant(dict(sliding_window=5, num_key_value_heads=1, head_dim=14), "MistralForCausalLM"),
    "qwen2": Variant(dict(tie_word_embeddings=True), "Qwen2ForCausalLM"),
    "qwen3": Variant(dict(num_key_value_heads=1, head_dim=14), "Qwen3ForCausalLM"),
}
# The variants of other families than LLaMA with default settings.
FAMILIES = ["llama3_rope", "linear_rope", "biases", "mistral", "qwen2", "qwen3"]


def write_checkpoint(name: str, folder: Path) -> None:
    write_variant(VARIANTS[name], folder)


def write_variant(variant: Variant, folder: Path) -> None:
    """Writes the variant's config.json and safetensors, with weights from a fixed seed."""
    torch.manual_seed(7)
    architecture = getattr(transformers, variant.architecture)
    model = architecture(architecture.config_class(**{**PLAIN_CONFIG, **variant.config}))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            # By default norms are ones and biases zeros, so a tensor that is not read would go
            # unnoticed.
            if "norm" in parameter_name:
                parameter.uniform_(0.5, 1.5)
            if "bias" in parameter_name:
                parameter.normal_(0, 0.5)
    model.save_pretrained(folder, max_shard_size=variant.shard_size)


def copy_with_changed_tensor(checkpoint: Path, folder: Path, name: str,
                             change: Callable[[torch.Tensor], object]) -> Path:
    """Copies a checkpoint of one file. `change` changes the tensor in place. Returns `folder`."""
    shutil.copytree(checkpoint, folder)
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    change(tensors[name])
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    return folder


def copy_without_last_layer(checkpoint: Path, folder: Path, key: str = "num_hidden_layers",
                            layers: str = "model.layers") -> Path:
    """Copies a checkpoint of one file. `key` of its config.json counts `layers`. Returns `folder`."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config[key] -= 1
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"{layers}.{config[key]}.")}
    safetensors.torch.save_file(kept, file, metadata={"format": "pt"})
    return folder


def write_tokens(file: Path) -> None:
    """Writes rows for STEPS steps. Every second token is a function of the token before it."""
    generator = numpy.random.default_rng(3)
    rows = generator.integers(0, VOCABULARY_SIZE, (STEPS * TOTAL_BATCH, SEQUENCE_LENGTH + 1))
    rows[:, 1::2] = (rows[:, 0::2] * 7 + 3) % VOCABULARY_SIZE
    numpy.save(file, rows.astype(numpy.int32))
