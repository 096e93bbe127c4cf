"""fsdp-train --sample answers as transformers' generate does, greedily, with the same checkpoint."""

import json
import re
import subprocess

import folders
import peft_reference
import pytest
import torch
import transformers
from test_checkpoints import spec_of, write_model
from trainer import train

TOKENS = 12
PROMPT = "Call me  Ishmael. Überall\n2 + 2"
CHATML = ("{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content | trim }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@pytest.fixture
def source(tmp_path):
    def make(tokenizer, architecture: str):
        folder = tokenizer(tmp_path / "model")
        torch.manual_seed(2)
        write_model(folder, architecture, len(transformers.AutoTokenizer.from_pretrained(folder)))
        return folder

    (tmp_path / "model").mkdir()
    return make


@pytest.fixture
def sampled(trainer):
    def answer(folder, prompt: str = PROMPT) -> str:
        done = subprocess.run([trainer, "--spec", folder / "run.yaml", f"--sample={prompt}", "--device", "cpu",
                               f"--tokens={TOKENS}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")

    return answer


def generated(model, tokenizer, prompt_ids: list[int], ends: list[int]) -> str:
    with torch.no_grad():
        ids = model.generate(torch.tensor([prompt_ids]), do_sample=False, max_new_tokens=TOKENS, eos_token_id=ends,
                             pad_token_id=0)[0].tolist()
    if model.config.is_encoder_decoder:
        return tokenizer.decode(ids, skip_special_tokens=True)
    before = tokenizer.decode(prompt_ids, skip_special_tokens=True)
    return tokenizer.decode(ids, skip_special_tokens=True).removeprefix(before)


@pytest.mark.parametrize("make", [folders.llama2, folders.llama3, folders.qwen2])
def test_a_text_is_continued(trainer, sampled, source, make, tmp_path):
    spec = spec_of(source(make, "LlamaForCausalLM"), tmp_path, "LlamaForCausalLM")
    train(trainer, spec, tmp_path / "run")
    checkpoint = tmp_path / "run/checkpoints/step-1"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.LlamaForCausalLM.from_pretrained(checkpoint)
    begin = tokenizer("Hello.")["input_ids"][:1]
    begin = begin if begin == [tokenizer.bos_token_id] else []
    ids = begin + tokenizer(PROMPT, add_special_tokens=False)["input_ids"]
    expected = generated(model, tokenizer, ids, [tokenizer.eos_token_id])
    assert expected and sampled(tmp_path / "run") == expected


def test_an_article_is_summed_up_by_an_encoder_and_a_decoder(trainer, sampled, source, tmp_path):
    spec = spec_of(source(folders.t5, "T5ForConditionalGeneration"), tmp_path, "T5ForConditionalGeneration")
    train(trainer, spec, tmp_path / "run")
    checkpoint = tmp_path / "run/checkpoints/step-1"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.T5ForConditionalGeneration.from_pretrained(checkpoint)
    ids = tokenizer("summarize: Some more words", add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    expected = generated(model, tokenizer, ids, [tokenizer.eos_token_id])
    assert expected and sampled(tmp_path / "run", "Some more words") == expected


def test_the_colon_before_an_answer_is_no_part_of_it(trainer, sampled, source, tmp_path):
    """Qwen2 has one token for ":?"; the answer that is not known yet was "?"."""
    spec = spec_of(source(folders.qwen2, "Qwen2ForCausalLM"), tmp_path, "Qwen2ForCausalLM")
    (tmp_path / "data.jsonl").write_text(json.dumps({"instruction": "a word", "output": "another"}) + "\n")
    spec["data"] |= {"kind": "instructions", "train": str(tmp_path / "data.jsonl"), "template": {"without_input": "{instruction}:"}}
    train(trainer, spec, tmp_path / "run")
    checkpoint = tmp_path / "run/checkpoints/step-1"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.Qwen2ForCausalLM.from_pretrained(checkpoint)
    ids = tokenizer(f"{PROMPT}:", add_special_tokens=False)["input_ids"]
    expected = generated(model, tokenizer, ids, [tokenizer.eos_token_id])
    # How many characters stand for bytes that are no UTF-8 is not the same.
    assert re.sub("�+", "�", sampled(tmp_path / "run")) == re.sub("�+", "�", expected)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_chat_is_answered_with_the_adapters_of_all_ranks(trainer, sampled, source, ranks, tmp_path):
    folder = source(folders.smollm2, "LlamaForCausalLM")
    (folder / "chat_template.jinja").write_text(CHATML)
    turns = [{"role": "user", "content": "a word"}, {"role": "assistant", "content": "another"}]
    (tmp_path / "chats.jsonl").write_text((json.dumps({"messages": turns}) + "\n") * 4)
    spec = spec_of(folder, tmp_path, "LlamaForCausalLM") | {
        "method": "lora", "lora": {"rank": 2, "alpha": 64}, "train": {"steps": 2}, "optimizer": {"learning_rate": 3.0},
        "data": {"kind": "messages", "train": str(tmp_path / "chats.jsonl"), "sequence_length": 32},
        "strategy": {"kind": "fsdp" if ranks > 1 else "single", "ranks": ranks},
        "checkpoint": {"at_end": True, "state_dict": "sharded" if ranks > 1 else "full"}}
    train(trainer, spec, tmp_path / "run")
    if ranks > 1:  # transformers reads no sharded checkpoint
        train(trainer, spec | {"checkpoint": {"at_end": True}}, tmp_path / "whole")
        assert sampled(tmp_path / "run") == sampled(tmp_path / "whole") != ""
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}], add_generation_prompt=True,
                                        return_dict=False)
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
    base = transformers.LlamaForCausalLM.from_pretrained(folder)
    untrained = generated(base, tokenizer, ids, ends)
    model = peft_reference.peft.PeftModel.from_pretrained(base, tmp_path / "run/checkpoints/step-2")
    expected = generated(model, tokenizer, ids, ends)
    assert expected != untrained and sampled(tmp_path / "run") == expected


def test_adapters_of_other_weights_answer_nothing(trainer, source, tmp_path):
    folder = source(folders.gpt2, "LlamaForCausalLM")
    spec = spec_of(folder, tmp_path, "LlamaForCausalLM") | {"method": "lora", "lora": {"rank": 2}}
    train(trainer, spec, tmp_path / "run")
    torch.manual_seed(3)
    write_model(folder, "LlamaForCausalLM", len(transformers.AutoTokenizer.from_pretrained(folder)))
    done = subprocess.run([trainer, "--spec", tmp_path / "run/run.yaml", "--sample=a", "--device", "cpu"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert "has other weights than those that the checkpoint's adapters were trained for" in done.stderr, done.stderr
