"""transformers and PEFT open a checkpoint of each family, and read texts as the run did, wherever the
run took its tokenizer from."""

import json
import re
import shutil
from functools import cache
from pathlib import Path

import folders
import pytest
import transformers
from peft_reference import peft
from test_parity import DIFFERS, first_difference
from texts import texts
from trainer import train

TEXTS = 50
PLACES = ("model.source", "data.tokenizer", "file")
CASES = [*(("LlamaForCausalLM", folders.llama2, place) for place in PLACES),
         *(("T5ForConditionalGeneration", folders.t5, place) for place in PLACES),
         ("LlamaForCausalLM", folders.llama3, "model.source"), ("LlamaForCausalLM", folders.smollm2, "data.tokenizer"),
         ("MistralForCausalLM", folders.llama2_json, "file"), ("Qwen2ForCausalLM", folders.qwen2, "model.source"),
         ("Qwen3ForCausalLM", folders.gpt2, "file")]
SIZES = {"LlamaForCausalLM": dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
                                  num_key_value_heads=2, head_dim=4, max_position_embeddings=64),
         "T5ForConditionalGeneration": dict(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
                                            decoder_start_token_id=0)}
TEMPLATES = {"chat_template.jinja": "{{ messages }}", "additional_chat_templates/rag.jinja": "{{ documents }}"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return cache(lambda make: make(tmp_path_factory.mktemp("tokenizer")))


def write_model(folder, architecture: str, vocab_size: int) -> None:
    kind = getattr(transformers, architecture)
    sizes = SIZES.get(architecture, SIZES["LlamaForCausalLM"])
    kind(kind.config_class(vocab_size=vocab_size, **sizes)).save_pretrained(folder)


def spec_of(source, data, architecture: str) -> dict:
    kind = "wikihow" if architecture.startswith("T5") else "text"
    (data / "data.csv").write_text("headline,text\n" + "a word,some more words\n" * 4)
    return {"model": {"source": str(source)}, "train": {"steps": 1}, "device": "cpu", "threads_per_rank": 1,
            "data": {"kind": kind, "train": str(data / "data.csv"), "sequence_length": 16, "input_length": 16,
                     "target_length": 8},
            "strategy": {"kind": "single", "ranks": 1}, "batch": {"size_per_rank": 1},
            "checkpoint": {"at_end": True}}


@pytest.mark.parametrize("architecture, make, place", CASES)
def test_others_read_texts_as_the_run_did(trainer, ours, tokenizer, architecture, make, place, tmp_path):
    made = tokenizer(make)
    sample = [text for text in texts(4, 3 * TEXTS) if not DIFFERS.get(make, lambda _: False)(text)][:TEXTS]
    [file] = (made / name for name in ("spiece.model", "tokenizer.model", "tokenizer.json") if (made / name).exists())
    read = file if place == "file" else made
    expected = ours(read, sample)
    source = tmp_path / "model"
    write_model(source, architecture, expected.about["vocab_size"])
    if place == "model.source":
        shutil.copytree(made, source, dirs_exist_ok=True)
    spec = spec_of(source, tmp_path, architecture)
    if place != "model.source":
        spec["data"]["tokenizer"] = str(read)
    if place != "file":
        where = source if place == "model.source" else shutil.copytree(made, tmp_path / "tokenizer")
        spec["data"]["tokenizer"] = str(where)
        for name, text in TEMPLATES.items():
            (where / name).parent.mkdir(exist_ok=True)
            (where / name).write_text(text)
    adapters = {"method": "lora", "lora": {"rank": 2}, "checkpoint": {"at_end": True, "merge": True}}
    train(trainer, spec, tmp_path / "full")
    train(trainer, spec | adapters, tmp_path / "lora")
    full, lora = (tmp_path / run / "checkpoints/step-1" for run in ("full", "lora"))
    for folder in (full, lora, lora / "merged"):
        reference = transformers.AutoTokenizer.from_pretrained(folder)
        ids = reference(sample, add_special_tokens=False)["input_ids"]
        assert first_difference(sample, expected.with_special, ids) is None, folder
        if place != "file":
            assert reference.chat_template == {"default": "{{ messages }}", "rag": "{{ documents }}"}
    for folder in (full, lora / "merged"):
        getattr(transformers, architecture).from_pretrained(folder)
    base = getattr(transformers, architecture).from_pretrained(source)
    assert peft.PeftModel.from_pretrained(base, lora).peft_config["default"].r == 2


def test_each_file_of_transformers_tokenizers_is_copied(trainer, tokenizer, tmp_path):
    """A checkpoint copies by names. This reads the names from transformers."""
    names = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.json",
             "tekken.json", "tokenizer.4.0.0.json", "tokenizer.model.v3", "vocab.txt"}
    for file in Path(transformers.__file__).parent.glob("models/*/tokenization_*.py"):
        for files in re.findall(r"VOCAB_FILES_NAMES = \{(.*?)\}", file.read_text(), re.DOTALL):
            names |= set(re.findall(r':\s*"([^"]+)"', files))
    assert {"spiece.model", "vocab.json", "sentencepiece.bpe.model"} <= names
    source = shutil.copytree(tokenizer(folders.gpt2), tmp_path / "model")
    write_model(source, "LlamaForCausalLM", 50257)
    spec = spec_of(source, tmp_path, "LlamaForCausalLM")
    for name in names - {file.name for file in source.iterdir()}:
        (source / name).write_text(json.dumps({}))
    (source / "spiece.model").unlink(missing_ok=True)
    (source / "tokenizer.model").unlink(missing_ok=True)
    train(trainer, spec, tmp_path / "run")
    copied = {file.name for file in (tmp_path / "run/checkpoints/step-1").iterdir()}
    assert {file.name for file in source.iterdir()} & names <= copied
