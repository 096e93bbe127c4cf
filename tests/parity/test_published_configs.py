"""Published config.json files, with smaller sizes. Logits equal those of transformers, or the file
is refused with a reason. If config.json and the weights disagree, the weights decide."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import pytest
import safetensors.torch
import torch
from checkpoints import TOTAL_BATCH as DECODER_BATCH
from logits import assert_same_logits, first_logits
from test_against_transformers import Case
from test_encoder_decoder import TOTAL_BATCH, articles, batch_of, pairs, spec_of  # noqa: F401
from trainer import log_file, read_events, start, train, wait_for
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

WRITTEN_BY_4 = dict(torch_dtype="bfloat16", transformers_version="4.44.2", use_cache=True)
WRITTEN_BY_5 = dict(dtype="bfloat16", transformers_version="5.0.0", use_cache=True)
SMALL = dict(hidden_size=48, intermediate_size=70, num_hidden_layers=2, num_attention_heads=4,
             vocab_size=97, max_position_embeddings=64, rms_norm_eps=1e-5, initializer_range=0.1,
             hidden_act="silu", bos_token_id=1, eos_token_id=2)
LLAMA = SMALL | dict(architectures=["LlamaForCausalLM"], model_type="llama")
MISTRAL = SMALL | dict(architectures=["MistralForCausalLM"], model_type="mistral", num_key_value_heads=2)
QWEN2 = SMALL | dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", num_key_value_heads=2)
QWEN3 = SMALL | dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", num_key_value_heads=2)
T5 = dict(architectures=["T5ForConditionalGeneration"], model_type="t5", d_model=48, d_ff=70, d_kv=12,
          num_heads=4, num_layers=2, vocab_size=1024, dropout_rate=0.0, layer_norm_epsilon=1e-6,
          relative_attention_num_buckets=8, is_encoder_decoder=True, initializer_factor=1.0,
          decoder_start_token_id=0, eos_token_id=1, pad_token_id=0, n_positions=512)
T5_11 = T5 | dict(feed_forward_proj="gated-gelu")
FLAN_OF_5 = T5_11 | WRITTEN_BY_5 | dict(
    is_gated_act=True, dense_act_fn="gelu_new", tie_word_embeddings=True, scale_decoder_outputs=False,
    classifier_dropout=0.0, is_decoder=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=0.25, high_freq_factor=1.0,
              original_max_position_embeddings=16)
QWEN_WINDOWS = dict(use_sliding_window=False, sliding_window=32768, max_window_layers=28)


@dataclass(frozen=True)
class Published:
    config: dict
    refusal: str = ""  # part of the reason; empty if the file is accepted
    head: str = "own"  # in the weights: own, tied (absent), or copy (of the embedding)
    tensors: dict = field(default_factory=dict)  # additional tensors in the weights


def without(config: dict, *keys: str) -> dict:
    return {key: value for key, value in config.items() if key not in keys}


CONFIGS = {
    # --- Llama ---
    "llama-1": Published(LLAMA | WRITTEN_BY_4 | dict(pad_token_id=-1, max_sequence_length=2048)),
    "llama-1 with inv_freq": Published(
        without(LLAMA, "max_position_embeddings") | WRITTEN_BY_4,
        tensors={"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(6)}),
    "llama-2": Published(LLAMA | WRITTEN_BY_4 | dict(
        num_key_value_heads=None, pretraining_tp=1, rope_scaling=None, tie_word_embeddings=False)),
    "codellama": Published(LLAMA | WRITTEN_BY_4 | dict(num_key_value_heads=4, rope_theta=1000000)),
    "llama-3": Published(LLAMA | WRITTEN_BY_4 | dict(
        num_key_value_heads=2, attention_bias=False, attention_dropout=0.0, rope_theta=500000.0)),
    "llama-3.1": Published(LLAMA | WRITTEN_BY_4 | dict(
        num_key_value_heads=2, eos_token_id=[1, 2, 3], rope_theta=100.0, rope_scaling=LLAMA3, mlp_bias=False)),
    "llama-3.2, tied": Published(LLAMA | WRITTEN_BY_4 | dict(
        num_key_value_heads=1, head_dim=16, rope_theta=100.0, rope_scaling=LLAMA3,
        tie_word_embeddings=True, pad_token_id=3), head="tied"),
    "llama-3.2 of version 5": Published(LLAMA | WRITTEN_BY_5 | dict(
        num_key_value_heads=1, head_dim=12, rope_parameters=LLAMA3 | dict(rope_theta=100.0),
        tie_word_embeddings=True), head="copy"),
    "said to be tied, with a head": Published(LLAMA | WRITTEN_BY_4 | dict(tie_word_embeddings=True)),
    "longchat": Published(LLAMA | WRITTEN_BY_4 | dict(
        rope_scaling={"type": "linear", "factor": 8.0}, rope_theta=100.0)),
    "both scalings": Published(LLAMA | dict(
        rope_parameters=LLAMA3 | dict(rope_theta=100.0), rope_scaling={"type": "linear", "factor": 2})),
    "original positions beside": Published(LLAMA | dict(
        original_max_position_embeddings=8, rope_theta=100.0, rope_scaling=LLAMA3)),
    "no original positions": Published(LLAMA | dict(
        rope_theta=100.0, rope_scaling=without(LLAMA3, "original_max_position_embeddings"))),
    "biases": Published(LLAMA | WRITTEN_BY_5 | dict(
        attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "default", "rope_theta": 1e4})),
    "llama, dynamic": Published(
        LLAMA | dict(rope_scaling={"type": "dynamic", "factor": 2.0}),
        "'rope_scaling.rope_type': \"dynamic\" is not supported"),
    "llama, yarn": Published(
        LLAMA | dict(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}),
        "'rope_parameters.rope_type': \"yarn\" is not supported"),
    "llama, longrope": Published(
        LLAMA | dict(rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}),
        "\"longrope\" is not supported"),
    "llama, gptq": Published(
        LLAMA | dict(quantization_config={"bits": 4, "quant_method": "gptq"}), "has a quantization_config"),
    "llama, half rotary": Published(
        LLAMA | dict(rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5}),
        "'rope_parameters.partial_rotary_factor': 0.5 is not supported; allowed: 1.0"),
    "llama, rotary by kind of layer": Published(
        LLAMA | dict(rope_parameters={"full_attention": {"rope_type": "default"}}),
        "'rope_parameters.full_attention'"),
    "llama, padding beyond": Published(
        LLAMA | dict(pad_token_id=97), "97 is not in the vocabulary; allowed: 0 to 96"),
    "llama, no head": Published(LLAMA, "tensor 'lm_head.weight' is missing", head="tied"),
    "llama, of mistral": Published(LLAMA | dict(model_type="mistral"), "'model_type'"),
    # --- Mistral ---
    "mistral-0.1": Published(MISTRAL | WRITTEN_BY_4 | dict(rope_theta=10000.0, sliding_window=5)),
    "mistral-0.2": Published(MISTRAL | WRITTEN_BY_4 | dict(
        rope_theta=1000000.0, sliding_window=None, attention_dropout=0.0)),
    "mistral-0.3": Published(MISTRAL | WRITTEN_BY_4 | dict(
        rope_theta=1e6, sliding_window=None, head_dim=None, tie_word_embeddings=False)),
    "mistral-nemo": Published(MISTRAL | WRITTEN_BY_4 | dict(
        head_dim=16, rope_theta=1e6, sliding_window=None)),
    "mistral of version 5": Published(MISTRAL | WRITTEN_BY_5 | dict(
        head_dim=12, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, sliding_window=None)),
    "zephyr": Published(MISTRAL | WRITTEN_BY_4 | dict(pad_token_id=2, sliding_window=7, rope_theta=1e4)),
    "mistral, tied": Published(MISTRAL | dict(tie_word_embeddings=True, sliding_window=6), head="tied"),
    "mistral, said to be tied": Published(MISTRAL | dict(tie_word_embeddings=True)),
    "mistral, defaults": Published(
        without(MISTRAL, "num_key_value_heads") | dict(num_attention_heads=8, hidden_size=64)),
    "mistral, layer_types": Published(
        MISTRAL | dict(layer_types=["sliding_attention", "full_attention"], sliding_window=5),
        "'layer_types'"),
    "mistral, attention_bias": Published(MISTRAL | dict(attention_bias=True, mlp_bias=True)),
    "mistral, linear": Published(MISTRAL | dict(
        rope_scaling={"type": "linear", "factor": 4.0}, rope_theta=100.0)),
    "mistral, yarn": Published(
        MISTRAL | dict(rope_scaling={"type": "yarn", "factor": 8.0}), "\"yarn\" is not supported"),
    "mistral, fp8": Published(
        MISTRAL | dict(quantization_config={"quant_method": "fp8"}), "has a quantization_config"),
    "mistral, dropout": Published(MISTRAL | dict(attention_dropout=0.1), "'attention_dropout'"),
    "mistral, gelu": Published(MISTRAL | dict(hidden_act="gelu"), "'hidden_act'"),
    # --- Qwen ---
    "qwen-1.5": Published(QWEN2 | WRITTEN_BY_4 | QWEN_WINDOWS | dict(
        attention_dropout=0.0, max_window_layers=21, rope_theta=1000000.0)),
    "qwen2, tied": Published(QWEN2 | WRITTEN_BY_4 | QWEN_WINDOWS | dict(
        rope_theta=1e6, tie_word_embeddings=True), head="tied"),
    "qwen2.5": Published(QWEN2 | WRITTEN_BY_4 | QWEN_WINDOWS | dict(
        rope_theta=1e6, use_mrope=False, tie_word_embeddings=False)),
    "qwen2 of version 5": Published(QWEN2 | WRITTEN_BY_5 | dict(
        layer_types=["full_attention"] * 2, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        sliding_window=None, use_sliding_window=False, pad_token_id=5)),
    "qwen2, windows from layer 28 on": Published(QWEN2 | QWEN_WINDOWS | dict(
        use_sliding_window=True, sliding_window=4)),
    "qwen2, attention_bias": Published(QWEN2 | dict(attention_bias=False)),
    "qwen2, heads by null": Published(QWEN2 | dict(num_key_value_heads=None)),
    "qwen2, said to be tied": Published(QWEN2 | dict(tie_word_embeddings=True)),
    "qwen3": Published(QWEN3 | WRITTEN_BY_4 | QWEN_WINDOWS | dict(
        attention_bias=False, head_dim=16, rope_scaling=None, rope_theta=1000000, sliding_window=None)),
    "qwen3, tied, of version 5": Published(QWEN3 | WRITTEN_BY_5 | dict(
        head_dim=16, attention_bias=False, layer_types=["full_attention"] * 2, use_sliding_window=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True), head="copy"),
    "qwen3, biases": Published(QWEN3 | dict(head_dim=14, attention_bias=True)),
    "qwen3, default heads": Published(QWEN3 | dict(pad_token_id=-2)),
    "qwen2.5, yarn": Published(
        QWEN2 | dict(rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
        "\"yarn\" is not supported"),
    "qwen2, windows in some layers": Published(
        QWEN2 | dict(use_sliding_window=True, sliding_window=4, max_window_layers=1), "'use_sliding_window'"),
    "qwen3, layer_types": Published(
        QWEN3 | dict(layer_types=["full_attention", "sliding_attention"], use_sliding_window=True),
        "'layer_types': \"sliding_attention\" is not supported"),
    "qwen2-vl's scaling": Published(
        QWEN2 | dict(rope_scaling={"type": "mrope", "mrope_section": [2, 2, 2]}), "\"mrope\""),
    # --- T5 ---
    "t5-small": Published(T5 | dict(
        n_positions=512, output_past=True, task_specific_params={"summarization": {"prefix": "a: "}}), head="tied"),
    "t5-small of version 5": Published(T5 | WRITTEN_BY_5 | dict(
        feed_forward_proj="relu", is_gated_act=False, dense_act_fn="relu", scale_decoder_outputs=True,
        tie_word_embeddings=True, num_decoder_layers=3), head="copy"),
    "t5-v1.1": Published(T5_11 | WRITTEN_BY_4 | dict(tie_word_embeddings=False, num_decoder_layers=2)),
    "flan-t5": Published(T5_11 | WRITTEN_BY_4 | dict(
        is_gated_act=True, dense_act_fn="gelu_new", tie_word_embeddings=False)),
    "flan-t5 of version 5": Published(FLAN_OF_5),
    "flan-t5 of version 5, without a head": Published(FLAN_OF_5, head="tied"),
    "t5-v1.1 without a head": Published(T5_11 | dict(tie_word_embeddings=False), head="tied"),
    "t5 with a head of its own": Published(T5, ),
    "t5, its embedding three times": Published(T5, head="tied", tensors={
        "encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.zeros(8, 4)}),
    "byt5": Published(T5_11 | WRITTEN_BY_4 | dict(
        num_layers=3, num_decoder_layers=1, tie_word_embeddings=False, relative_attention_max_distance=20)),
    "t5, two embeddings": Published(
        T5, "tensor 'encoder.embed_tokens.weight' differs from 'shared.weight'", head="tied",
        tensors={"encoder.embed_tokens.weight": torch.ones(1024, 48)}),
    "ul2": Published(T5 | dict(feed_forward_proj="gated-silu"), "'feed_forward_proj'"),
    "t5, gelu beside relu": Published(T5 | dict(dense_act_fn="gelu_new"), "'dense_act_fn'"),
    "t5, a gate beside relu": Published(T5 | dict(is_gated_act=True), "'is_gated_act'"),
    "mt5": Published(T5_11 | dict(architectures=["MT5ForConditionalGeneration"], model_type="mt5"),
                     "'architectures'"),
    "t5, 8 bits": Published(T5 | dict(quantization_config={"load_in_8bit": True}), "has a quantization_config"),
}


def is_t5(published: Published) -> bool:
    return published.config["model_type"] == "t5"


def write(published: Published, folder: Path) -> Path:
    """Writes the model's folder like the published one, but with random weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(published.config))
    if published.refusal and not published.tensors and published.head == "own":
        return folder
    torch.manual_seed(7)
    auto = AutoModelForSeq2SeqLM if is_t5(published) else AutoModelForCausalLM
    tensors = dict(auto.from_config(AutoConfig.from_pretrained(folder)).float().state_dict())
    embedding = tensors["shared.weight" if is_t5(published) else "model.embed_tokens.weight"]
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        tensors.pop(name, None)
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("bias"):
            tensor.normal_(0, 0.5)
    heads = {"own": 0.3 * torch.randn_like(embedding), "copy": embedding.clone()}
    tensors.pop("lm_head.weight")
    if published.head in heads:
        tensors["lm_head.weight"] = heads[published.head]
    for name, tensor in published.tensors.items():
        tensors[name] = tensors[tensor].clone() if isinstance(tensor, str) else tensor
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def spec_for(published: Published, folder: Path, tokens: Path, articles: Path) -> dict:
    if not is_t5(published):
        return Case("single").spec(folder, tokens)
    spec = spec_of(Case("single"), folder, articles)
    spec["data"]["rows"] = "pad"
    return spec


@pytest.mark.parametrize("name", [name for name in CONFIGS if not CONFIGS[name].refusal])
def test_logits(logits_writer, name, tokens, articles, pairs, tmp_path):  # noqa: F811
    published = CONFIGS[name]
    folder = write(published, tmp_path / "model")
    data = articles if is_t5(published) else tokens
    logits = first_logits(logits_writer, spec_for(published, folder, tokens, articles), data, tmp_path / "run")
    is_label = slice(None)
    with torch.no_grad():
        if is_t5(published):
            model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
            inputs, mask, labels = batch_of(pairs[:TOTAL_BATCH])
            expected = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
            is_label = labels.flatten().ne(-100).numpy()
        else:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            rows = torch.from_numpy(numpy.load(tokens)[:DECODER_BATCH, :-1].astype(numpy.int64))
            expected = model(rows, use_cache=False).logits
    assert_same_logits(expected.flatten(0, 1).numpy(), logits.evaluation, is_label)


@pytest.mark.parametrize("name", [name for name in CONFIGS if CONFIGS[name].refusal])
def test_refusal(trainer, name, tokens, articles, tmp_path):  # noqa: F811
    published = CONFIGS[name]
    folder = write(published, tmp_path / "model")
    processes = start(trainer, spec_for(published, folder, tokens, articles), tmp_path / "run")
    wait_for(processes)
    assert processes[0].returncode == 2
    assert published.refusal in log_file(tmp_path / "run", 0).read_text()


def test_keys_that_are_not_read_are_reported(trainer, checkpoints, tokens, tmp_path):
    folder = shutil.copytree(checkpoints["plain"], tmp_path / "model")
    file = folder / "config.json"
    config = json.loads(file.read_text())
    spec = Case("single").spec(folder, tokens, train={"steps": 1, "seed": 1})
    train(trainer, spec, tmp_path / "as_written")
    file.write_text(json.dumps(config | dict(
        logits_scaling=8.0, sliding_window=7, auto_map={}, embedding_multiplier=None, use_mrope=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "beta_fast": 32})))
    train(trainer, spec, tmp_path / "with_others")
    warnings = [read_events(tmp_path / run)[0]["warning"] for run in ("as_written", "with_others")]
    assert warnings == ["", "keys of config.json that are not read: logits_scaling, "
                        "rope_parameters.beta_fast, sliding_window"]
