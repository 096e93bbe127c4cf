"""Writes the small models of this folder, and the losses of training them, with transformers, PEFT and bitsandbytes:

    .venv/bin/python tests/parity/stored/write.py

The quick tests compare the trainer with these losses and need none of these packages
(test_stored_losses.py). The full tests compute the losses anew (test_stored_references.py).
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import torch  # noqa: E402
import transformers  # noqa: E402
from checkpoints import write_tokens  # noqa: E402
from peft_reference import Adapters, load_model, train_adapter, write_adapter  # noqa: E402
from reference import OPTIMIZER, train_reference  # noqa: E402
from test_encoder_decoder import losses_of, tokenized, write_articles  # noqa: E402

SIZE = dict(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32, initializer_range=0.1)
CONFIGS = {
    "llama": transformers.LlamaConfig(**SIZE, rope_parameters={"rope_type": "default", "rope_theta": 5e4}),
    "mistral": transformers.MistralConfig(**SIZE, sliding_window=5),
    "qwen2": transformers.Qwen2Config(**SIZE, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**SIZE, head_dim=8),
    "t5": transformers.T5Config(
        vocab_size=1024, d_model=12, d_kv=6, d_ff=20, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
        relative_attention_max_distance=20, dropout_rate=0.0, decoder_start_token_id=0),
}
ARCHITECTURES = {"t5": transformers.T5ForConditionalGeneration}
ADAPTERS = {method: Adapters(rank=4, alpha=8.0, method=method) for method in ("lora", "qlora")}


def write_models() -> None:
    write_tokens(HERE / "train.npy")
    write_articles(HERE / "articles.csv")
    for name, config in CONFIGS.items():
        torch.manual_seed(7)
        model = ARCHITECTURES.get(name) or transformers.AutoModelForCausalLM
        model = model(config) if name in ARCHITECTURES else model.from_config(config)
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                if "norm" in parameter_name:  # otherwise all ones
                    parameter.uniform_(0.5, 1.5)
        model.save_pretrained(HERE / name)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
    write_adapter(load_model(HERE / "llama"), ADAPTERS["lora"], HERE / "adapter")
    (HERE / "adapter/README.md").unlink()
    settings = json.loads((HERE / "adapter/adapter_config.json").read_text())
    settings["base_model_name_or_path"] = None  # it would be this machine's folder
    (HERE / "adapter/adapter_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def losses_of_t5() -> list[float]:
    model = transformers.T5ForConditionalGeneration.from_pretrained(HERE / "t5", dtype=torch.float32).train()
    return losses_of(model, tokenized(HERE / "articles.csv"))


def reference_losses() -> dict[str, list[float]]:
    """Trains the models of this folder. Returns the losses of each."""
    tokens = HERE / "train.npy"
    losses = {name: train_reference(HERE / name, tokens, None, torch.float32, OPTIMIZER).losses
              for name in CONFIGS if name != "t5"}
    losses["t5"] = losses_of_t5()
    for method in ADAPTERS:
        losses[method] = train_adapter(HERE / "llama", HERE / "adapter", tokens, method)
    return losses


if __name__ == "__main__":
    write_models()
    (HERE / "losses.json").write_text(json.dumps(reference_losses(), indent=1) + "\n")
