"""Our ids equal those of sentencepiece, tiktoken and tokenizers, for files in Python packages."""

import itertools
import json
import pathlib
import random
import re
import shutil
import subprocess
import unicodedata

import folders
import pytest
import sentencepiece
import tiktoken
import tokenizers
import transformers
from folders import shipped
from texts import texts

CHESS = pathlib.Path(__file__).resolve().parents[2] / "experiments/data/chess/tokenizer.model"
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def differs_for_t5(text: str) -> bool:
    """True if tokenizers gives other ids than SentencePiece, with which T5 was trained. tokenizers
    treats U+0085 as a space. It maps clusters of characters (with marks or joiners), but
    SentencePiece maps single characters."""
    return any(each in text for each in "\x85\u200d") or any(unicodedata.category(each).startswith("M") for each in text)


def differs_for_llama(text: str) -> bool:
    """True if transformers 5 gives other ids than SentencePiece, with which LLaMA was trained.
    transformers drops two things of a tokenizer.model: the scores that merge several spaces, and
    the space that is added before a leading space."""
    return any(each in text for each in ("  ", "▁", "s> ", "unk> ")) or text.startswith(" ")


DIFFERS = {folders.t5: differs_for_t5, folders.llama2: differs_for_llama,
           folders.llama2_legacy: differs_for_llama, folders.llama2_without_prefix: differs_for_llama}


def first_difference(texts, expected, found):
    for text, want, got in zip(texts, expected, found, strict=True):
        if want != got:
            return {"text": text, "expected": want, "found": got}
    return None


@pytest.mark.parametrize("package, path", [
    ("mistral_common", "data/tokenizer.model.v1"),
    ("mistral_common", "data/mistral_instruct_tokenizer_240323.model.v3"),
    ("mistral_common", "data/mistral_instruct_tokenizer_241114.model.v7"),
    ("seqio", "test_data/sentencepiece/sentencepiece.model"),
])
def test_sentencepiece(ours, text_count, package, path):
    file = shipped(package, path)
    reference = sentencepiece.SentencePieceProcessor(str(file))
    sample = texts(1, text_count)
    expected = [reference.encode(text) for text in sample]
    found = ours(file, sample)
    assert first_difference(sample, expected, found.plain) is None
    assert found.about["vocab_size"] == reference.vocab_size()


def test_tiktoken(ours, text_count):
    file = shipped(*folders.LLAMA3)
    ranks = folders.read_tiktoken(file)
    special = {token: len(ranks) + i for i, token in enumerate(folders.llama3_special())}
    reference = tiktoken.Encoding("llama3", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=special)
    sample = texts(2, text_count, with_special=True)
    found = ours(file, sample)
    assert first_difference(sample, reference.encode_ordinary_batch(sample), found.plain) is None
    assert first_difference(sample, reference.encode_batch(sample, allowed_special="all"),
                            found.with_special) is None
    assert found.about["vocab_size"] == reference.n_vocab


@pytest.mark.parametrize("make", [folders.llama3, folders.qwen2, folders.gpt2, folders.deepseek,
                                  folders.tekken, folders.smollm2, folders.llama2_json])
def test_tokenizer_json(ours, text_count, tmp_path, make):
    folder = make(tmp_path)
    file = folder / "tokenizer.json"
    reference = tokenizers.Tokenizer.from_file(str(file))
    sample = texts(3, text_count, with_special=True)
    found = ours(file, sample)
    special = [each.ids for each in reference.encode_batch(sample, add_special_tokens=False)]
    assert first_difference(sample, special, found.with_special) is None
    reference.encode_special_tokens = True
    plain = [each.ids for each in reference.encode_batch(sample, add_special_tokens=False)]
    assert first_difference(sample, plain, found.plain) is None


@pytest.mark.parametrize("make", [folders.llama3, folders.qwen2, folders.gpt2, folders.deepseek,
                                  folders.smollm2, folders.llama2, folders.llama2_legacy,
                                  folders.llama2_without_prefix, folders.llama2_json, folders.t5])
def test_transformers(ours, text_count, tmp_path, make):
    from transformers import AutoTokenizer
    folder = make(tmp_path)
    reference = AutoTokenizer.from_pretrained(folder)
    sample = texts(4, text_count, with_special=True)
    sample = [text for text in sample if not DIFFERS.get(make, lambda _: False)(text)]
    found = ours(folder, sample)
    ends = found.about
    assert ends["begin"] == reference.bos_token_id
    assert ends["end"] == reference.eos_token_id
    assert ends["padding"] == reference.pad_token_id
    special = reference(sample, add_special_tokens=False)["input_ids"]
    assert first_difference(sample, special, found.with_special) is None
    begin = [ends["begin"]] if ends["adds_begin"] else []
    end = [ends["end"]] if ends["adds_end"] else []
    assert reference("Hello.")["input_ids"] == begin + reference(
        "Hello.", add_special_tokens=False)["input_ids"] + end
    assert ends["vocab_size"] == len(reference)


@pytest.mark.parametrize("make", [folders.llama3, folders.qwen2, folders.gpt2, folders.deepseek,
                                  folders.smollm2, folders.llama2, folders.llama2_legacy,
                                  folders.llama2_without_prefix, folders.llama2_json, folders.t5])
def test_decoded_as_transformers_does(encode_text, tmp_path, make):
    folder = make(tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    draw = random.Random(5)
    tokens = reference(texts(6, 500, with_special=True), add_special_tokens=False)["input_ids"]
    # Bytes of half a character, special tokens and unused ids beside each other.
    tokens += [[draw.randrange(len(reference)) for _ in range(draw.randrange(12))] for _ in range(500)]
    asked = "".join(json.dumps(ids) + "\n" for ids in tokens)
    done = subprocess.run([encode_text, folder], input=asked, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.removesuffix("\n").split("\n")[1:]]
    expected = [reference.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) for ids in tokens]
    # How many characters stand for bytes that are no UTF-8 is not the same.
    fewer = [[re.sub("�+", "�", text) for text in each] for each in (expected, found)]
    assert first_difference(tokens, *fewer) is None


def test_white_space_of_all_code_points(encode_text):
    done = subprocess.run([encode_text, "--white-space"], capture_output=True, text=True, check=True)
    python, rust = map(json.loads, done.stdout.splitlines())
    assert python == [c for c in range(0x110000) if chr(c).isspace()] == [c for c in range(0x110000) if not chr(c).strip()]
    assert rust == [c for c in python if not 0x1c <= c <= 0x1f]


def test_added_tokens_beside_all_code_points(ours, tmp_path):
    """Tokens that take white space, and tokens that stand apart from words."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.train_from_iterator([], tokenizers.trainers.BpeTrainer(
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([tokenizers.AddedToken("<l>", lstrip=True), tokenizers.AddedToken("<r>", rstrip=True),
                          tokenizers.AddedToken("word", single_word=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    # Older tables of Unicode do not have all characters, so those that Python does not know are left out.
    known = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    sample = ["".join(f"a{c}<l>a<r>{c}a {c}word word{c}" for c in known[i:i + 50]) for i in range(0, len(known), 50)]
    expected = [each.ids for each in tokenizer.encode_batch(sample)]
    assert first_difference(sample, expected, ours(tmp_path / "tokenizer.json", sample).with_special) is None


def template(single):
    return tokenizers.processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 1), ("<x>", 2)])


POST_PROCESSORS = [None, tokenizers.processors.ByteLevel(), *map(template, ["<s> $A", "$A </s>", "<s> $A </s>", "<x> $A"]),
                   tokenizers.processors.Sequence([tokenizers.processors.ByteLevel(), template("<s> $A")])]


def added_to_texts(place):
    """What transformers puts before and behind a text."""
    reference = transformers.AutoTokenizer.from_pretrained(place)
    ids, plain = reference("ab")["input_ids"], reference("ab", add_special_tokens=False)["input_ids"]
    begin = next(i for i in range(len(ids)) if ids[i:i + len(plain)] == plain)
    return ids[:begin], ids[begin + len(plain):]


def flags():
    for bos, eos in itertools.product([None, True, False], repeat=2):
        yield {name: flag for name, flag in (("add_bos_token", bos), ("add_eos_token", eos)) if flag is not None}


def assert_same_ends(ours, folder, config):
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    ends = ours(folder, []).about
    added = [[ends[name]] if ends[f"adds_{name}"] else [] for name in ("begin", "end")]
    assert (*added,) == added_to_texts(folder), config


@pytest.mark.parametrize("post_processor", POST_PROCESSORS, ids=["none", "bytes", "bos", "eos", "both", "other", "list"])
@pytest.mark.parametrize("name", [None, "PreTrainedTokenizerFast", "GPT2Tokenizer", "LlamaTokenizer", "CodeLlamaTokenizer"])
def test_begin_and_end_of_a_tokenizer_json(ours, tmp_path, post_processor, name):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([], tokenizers.trainers.BpeTrainer(
        special_tokens=["<s>", "</s>", "<x>", "<unk>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for each in flags():
        assert_same_ends(ours, tmp_path, {"bos_token": "<s>", "eos_token": "</s>"} | each
                         | ({"tokenizer_class": name} if name else {}))


@pytest.mark.parametrize("name", [None, "PreTrainedTokenizerFast", "LlamaTokenizer", "CodeLlamaTokenizer", "T5Tokenizer"])
def test_begin_and_end_of_a_sentencepiece_model(ours, tmp_path, name):
    file = "spiece.model" if name == "T5Tokenizer" else "tokenizer.model"
    shutil.copy(CHESS, tmp_path / file)
    for each in flags():
        assert_same_ends(ours, tmp_path, {"bos_token": "<s>", "eos_token": "</s>"} | each
                         | ({"tokenizer_class": name} if name else {}))
