"""Random chats and records have the tokens and labels of mistral-common and transformers: texts with Unicode of all
kinds and special tokens inside, missing and extra columns. A chat that the reference refuses is refused."""

import json
import random

import folders
import pytest
from conftest import ENDS, TEXTS
from test_chat_templates import SHAPES, with_generation, without_generation, write_folder
from test_prepared import ALPACA, SPECIAL, TEMPLATES, masked, written
from texts import insert, text
from transformers import AutoTokenizer, PreTrainedTokenizerFast

MISTRAL = {"v1": "tokenizer.model.v1", "v2": "mistral_instruct_tokenizer_240216.model.v2",
           "v3": "mistral_instruct_tokenizer_240323.model.v3", "v7": "mistral_instruct_tokenizer_241114.model.v7"}
TOKENS = ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "</s>", "<s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "<|endoftext|>"]
FEW_AND_MANY = pytest.mark.parametrize("count", [25, pytest.param(150, marks=pytest.mark.nightly)])


def content(rng):
    made = rng.choice(ENDS) + insert(rng, text(rng)) + rng.choice(ENDS)
    return made + rng.choice(TOKENS) + rng.choice(["", " ", "x"]) if rng.random() < 0.2 else made


def written_chat(rng, turns):
    """Returns a record of these turns, in any of the shapes that are read."""
    names = {"assistant": ["assistant", "gpt", "Assistant", "model"], "user": ["user", "human"]}
    keys = rng.choice([("messages", "role", "content"), ("conversations", "from", "value"), ("messages", "from", "value")])
    record = {keys[0]: [{keys[1]: rng.choice(names.get(role, [role])), keys[2]: said} for role, said in turns]}
    is_alone = [role for role, _ in turns[:2]] in (["system", "user"], ["system", "assistant"])
    if is_alone and turns[0][1] and rng.random() < 0.5:
        record |= {"system": record[keys[0]].pop(0)[keys[2]]}
    if rng.random() < 0.3:
        record |= rng.choice([{"id": 7}, {"source": "x", "tools": None}, {"chat_template_kwargs": {"enable_thinking": False}}])
    return record


def turns_in_turn(rng):
    turns = [(role, content(rng)) for _ in range(rng.randint(1, 3)) for role in ("user", "assistant")]
    turns = [("system", content(rng))] * rng.choice([0, 1]) + turns
    return turns[:-1] if rng.random() < 0.2 else turns


def any_turns(rng):
    """Also turns in an order that is refused, and neighbours of one role."""
    if rng.random() < 0.6:
        return turns_in_turn(rng)
    return [(rng.choice(["user", "user", "assistant", "assistant", "system"]), content(rng)) for _ in range(rng.randint(1, 5))]


def mistral_tokens(tokenizer, turns):
    """Returns the tokens and the labels of mistral-common; None if it refuses the chat."""
    from mistral_common.exceptions import MistralCommonException
    from mistral_common.protocol.instruct.messages import AssistantMessage, UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    own = tokenizer.instruct_tokenizer
    try:
        chat = tokenizer._chat_completion_request_validator.validate_request(
            ChatCompletionRequest(messages=[{"role": role, "content": said} for role, said in turns]))
        request = tokenizer._instruct_request_normalizer.from_chat_completion_request(chat)
        expected = own.encode_instruct(request).tokens
    except MistralCommonException:
        return None
    first, last = own.find_first_last_user(request)
    tokens, labels = own.start(), [-100]
    for i, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage):
            new = own.encode_assistant_message(message, i < last)
        elif isinstance(message, UserMessage):
            new = own.encode_user_message(message, [], i == last, i == first, system_prompt=request.system_prompt)[0]
        else:
            new = own.encode_system_message(message)[0]
        tokens += new
        labels += new if isinstance(message, AssistantMessage) else [-100] * len(new)
    assert tokens == expected
    return tokens, labels


def template_tokens(fast, turns):
    try:
        made = fast.apply_chat_template([{"role": role, "content": said} for role, said in turns], return_dict=True,
                                        return_assistant_tokens_mask=True)
    except Exception as error:
        assert "Error" in type(error).__name__
        return None
    return made["input_ids"], [token if trained else -100
                               for token, trained in zip(made["input_ids"], made["assistant_masks"])]


def assert_chats_equal(try_prepare, tmp_path, data, chats, reference, rng):
    """`chats` are lists of turns, and `reference` gives their tokens and labels."""
    expected = [(turns, reference(turns)) for turns in chats]
    known = [(turns, made) for turns, made in expected if made]
    assert any(label != -100 for _, (_, labels) in known for label in labels)
    file = tmp_path / "chats.jsonl"
    data = {"kind": "messages", "train": str(file)} | data
    file.write_text("\n".join(json.dumps(written_chat(rng, turns)) for turns, _ in known))
    done, prepared = try_prepare(data)
    assert done.returncode == 0, done.stderr
    for (turns, (tokens, labels)), found, found_labels in zip(known, prepared.tokens, prepared.labels, strict=True):
        assert found == tokens, turns
        assert found_labels == labels, turns
    for turns, _ in [(turns, made) for turns, made in expected if not made][:4]:
        file.write_text(json.dumps(written_chat(rng, turns)))
        assert try_prepare(data)[0].returncode == 2, turns


@FEW_AND_MANY
@pytest.mark.parametrize("version", MISTRAL)
def test_chats_of_mistral(try_prepare, tmp_path, version, count):
    from mistral_common.protocol.instruct.validator import ValidationMode
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    rng = random.Random(f"{version} {count}")
    file = folders.shipped("mistral_common", f"data/{MISTRAL[version]}")
    tokenizer = MistralTokenizer.from_file(file, mode=ValidationMode.agnostic)
    chats = [any_turns(rng) for _ in range(count)]
    # mistral-common joins empty answers with others, which is refused here.
    chats = [turns for turns in chats if all(said for role, said in turns if role == "assistant")]
    assert_chats_equal(try_prepare, tmp_path, {"format": "mistral", "tokenizer": str(file)}, chats,
                       lambda turns: mistral_tokens(tokenizer, turns), rng)


def test_the_first_token_of_an_answer_to_mistral(try_prepare, tmp_path):
    """Each text is encoded alone, so an answer begins with a space of its own, and [INST] is a token."""
    file = folders.shipped("mistral_common", f"data/{MISTRAL['v3']}")
    chat = [{"role": "user", "content": "Two plus two?"}, {"role": "assistant", "content": "Four."}]
    _, prepared = try_prepare({"kind": "messages", "format": "mistral", "tokenizer": str(file),
                               "train": written(tmp_path / "a.jsonl", [{"messages": chat}])})
    assert prepared.tokens == [[1, 3, 6773, 4053, 1757, 29572, 4, 10379, 29491, 2]]
    assert prepared.labels == [[-100] * 7 + [10379, 29491, 2]]


def format_folder(path, tokenizer, form):
    """Writes a folder for a data.format. Returns its tokenizer as transformers reads it."""
    added = {token.content: token for token in tokenizer.get_added_tokens_decoder().values()}  # with their attributes
    bos, eos = (added[text] for text in SPECIAL[form][:2])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos)
    fast.save_pretrained(path)
    fast.chat_template = TEMPLATES[form]
    return fast


def for_qwen3(rng, turns, is_usual):
    """Returns turns for a template that moves and drops reasoning, and strips line feeds of answers. If not usual, some
    answers have reasoning."""
    def answer():
        plain, thought = (rng.choice(TEXTS).strip() or "x" for _ in range(2))
        return f"<think>\n{thought}\n</think>\n\n{plain}" if rng.random() < 0.4 else plain

    return [(role, said.strip("\n") if is_usual or role != "assistant" else answer()) for role, said in turns]


@FEW_AND_MANY
@pytest.mark.parametrize("is_usual", [True, False])
@pytest.mark.parametrize("name", [*TEMPLATES, *SHAPES])
def test_chats_by_format_and_template(try_prepare, tmp_path, byte_level, name, is_usual, count):
    """If not usual, a format's special tokens take the white space around them. A template marks its answers, and is in
    tokenizer_config.json."""
    rng = random.Random(f"{name} {count}")
    chats = [turns_in_turn(rng) for _ in range(count)]
    folder = tmp_path / "tokenizer"
    data = {"tokenizer": str(folder)}
    if name in TEMPLATES:
        fast = format_folder(folder, byte_level(SPECIAL[name], not is_usual), name)
        data["format"] = name
    else:
        template, special = SHAPES[name]
        fast = write_folder(tmp_path / "reference", byte_level(special), with_generation(template), special)
        own = without_generation(template) if is_usual else with_generation(template)
        write_folder(folder, byte_level(special), own, special, in_config=not is_usual)
    if name == "qwen3":
        chats = [for_qwen3(rng, turns, is_usual) for turns in chats]
    assert_chats_equal(try_prepare, tmp_path, data, chats, lambda turns: template_tokens(fast, turns), rng)


@pytest.mark.nightly
@pytest.mark.parametrize(("make", "form"), [(folders.llama3, "llama3"), (folders.qwen2, "chatml")])
def test_chats_with_published_tokenizers(try_prepare, tmp_path, make, form):
    rng = random.Random(form)
    fast = AutoTokenizer.from_pretrained(make(tmp_path))
    fast.chat_template = TEMPLATES[form]
    chats = [turns_in_turn(rng) for _ in range(200)]
    assert_chats_equal(try_prepare, tmp_path, {"format": form, "tokenizer": str(tmp_path)}, chats,
                       lambda turns: template_tokens(fast, turns), rng)


def optional(rng, name, made):
    return rng.choice([{name: made}, {name: made}, {name: ""}, {name: None}, {}])


@FEW_AND_MANY
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", ["text", "instructions", "wikihow"])
def test_records(try_prepare, tmp_path, byte_level, kind, split, count):
    """A text in the data or in the template that looks like a special token is one, unless it is to be split."""
    rng = random.Random(f"{kind} {split} {count}")
    special = ["<s>", *SPECIAL["chatml"]]
    fast = PreTrainedTokenizerFast(tokenizer_object=byte_level(special), eos_token=special[-1])
    fast.save_pretrained(tmp_path)
    template = rng.choice([None, {"without_input": "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n",
                                  "with_input": "{system}<|im_start|>user\n{input} {instruction}<|im_end|>\n"}])
    records = []
    for i in range(count):
        record = {"text": content(rng)} if kind == "text" else {"text": content(rng), "headline": content(rng)}
        if kind == "instructions":
            record = {"instruction": content(rng), "output": content(rng), **optional(rng, "input", content(rng))}
        records.append(record | ({"id": i} if i % 2 else {}))

    def ids(said):
        return fast(said, add_special_tokens=False, split_special_tokens=split)["input_ids"]

    def clean(said):
        for part in ("Example of text:", "Example of Summary:", "\n", "``", '"'):
            said = said.replace(part, "")
        return said

    end = fast.eos_token_id
    data = {"kind": kind, "tokenizer": str(tmp_path), "train": written(tmp_path / "a.jsonl", records),
            "split_special_tokens": split} | ({"template": template} if template and kind == "instructions" else {})
    data |= {"input_length": 60, "target_length": 20} if kind == "wikihow" else {}
    done, prepared = try_prepare(data)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert ("special tokens in texts: " in said) == (not split) and f"columns not read: {count // 2} id" in said
    for record, tokens, labels in zip(records, prepared.tokens, prepared.labels, strict=True):
        if kind == "text":
            expected, untrained = [*ids(record["text"]), end], 0
        elif kind == "wikihow":
            source = [*ids("summarize: " + clean(record["text"]))[:59], end]
            expected, untrained = source + [*ids(clean(record["headline"]))[:19], end], len(source)
        else:
            prompt = (template or ALPACA)["with_input" if record.get("input") else "without_input"].replace("{system}", "")
            prompt = prompt.replace("{instruction}", "\0i").replace("{input}", "\0j")
            prompt = prompt.replace("\0i", record["instruction"]).replace("\0j", record.get("input") or "")
            untrained, expected = len(ids(prompt)), [*ids(prompt + record["output"]), end]
        assert tokens == expected, record
        assert labels == masked(expected, untrained), record
