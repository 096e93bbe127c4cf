"""The reference for adapters: PEFT on transformers' models, trained by PyTorch in one process.

bitsandbytes quantizes weights, with its CPU backend.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from checkpoints import STEPS, TOTAL_BATCH
from reference import adamw_of
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

# PEFT imports Transformer Engine if Python finds it. But only its headers are installed.
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: (
    None if name.startswith("transformer_engine") else find_spec(name, *rest))
import peft  # noqa: E402

importlib.util.find_spec = find_spec

ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class Adapters:
    """The settings of an adapter, as in run.yaml's section `lora`."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("all-linear",)
    use_rslora: bool = False
    method: str = "lora"

    def names(self) -> list[str]:
        groups = {"all-linear": ALL_LINEAR, "attention": ALL_LINEAR[:4], "mlp": ALL_LINEAR[4:]}
        return [name for target in self.targets for name in groups.get(target, [target])]

    def keys(self, folder: Path) -> dict:
        return {"method": self.method,
                "lora": {"rank": self.rank, "alpha": self.alpha, "targets": list(self.targets),
                         "use_rslora": self.use_rslora, "adapter": str(folder)}}


NF4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                         bnb_4bit_compute_dtype=torch.float32)


def load_model(checkpoint: Path, method: str = "lora"):
    quantization = {"quantization_config": NF4} if method == "qlora" else {}
    return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, **quantization)


def write_adapter(base, adapters: Adapters, folder: Path, names: list[str] | None = None) -> Path:
    """Saves random adapters of a model with PEFT. PEFT's default B is zero, which would make half
    of the gradients zero."""
    torch.manual_seed(5)
    model = peft.get_peft_model(
        base, peft.LoraConfig(r=adapters.rank, lora_alpha=adapters.alpha,
                              target_modules=names or adapters.names(),
                              use_rslora=adapters.use_rslora, init_lora_weights=False))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    return folder


def load_adapter(checkpoint: Path, folder: Path, is_trainable: bool = False, method: str = "lora"):
    return peft.PeftModel.from_pretrained(load_model(checkpoint, method), folder, is_trainable=is_trainable)


def train_adapter(checkpoint: Path, folder: Path, tokens: Path, method: str = "lora") -> list[float]:
    """Trains STEPS steps of TOTAL_BATCH rows, in order. Returns the losses."""
    model = load_adapter(checkpoint, folder, is_trainable=True, method=method).train()
    rows = torch.from_numpy(numpy.load(tokens).astype(numpy.int64))
    adamw = adamw_of(model)
    losses = []
    for batch in rows.split(TOTAL_BATCH)[:STEPS]:
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
    return losses
