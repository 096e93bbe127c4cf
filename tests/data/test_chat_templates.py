"""Chats without a data.format have the tokens and labels of transformers' apply_chat_template, with
the tokenizer's own template.

The templates resemble published ones. The expected labels come from the same template with `{%
generation %}` around each answer and the token that ends it."""

import json
import shutil
import sys

import pytest
from test_prepared import chatml, written  # noqa: F401
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

# GEN and END enclose the text that is trained on.
SMOLLM2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
'}}{% if message['role'] == 'assistant' %}GEN{{ message['content'] + '<|im_end|>' }}END{% else %}{{ message['content'] +
'<|im_end|>' }}{% endif %}{{ '
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

QWEN2_5 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}{{- tools | tojson }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" and not message.tool_calls %}
        {{- '<|im_start|>' + message.role + '\\n' }}GEN{{- message.content + '<|im_end|>' }}END{{- '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

QWEN3 = """{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last_query_index == messages|length - 1 and message.role == "user" and message.content is string %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system") %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and reasoning_content %}
            {{- '<|im_start|>' + message.role + '\\n' }}GEN{{- '<think>\\n' + reasoning_content.strip('\\n') +
                '\\n</think>\\n\\n' + content.lstrip('\\n') + '<|im_end|>' }}END{{- '\\n' }}
        {%- elif loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n' }}GEN{{- '<think>\\n\\n</think>\\n\\n' +
                content.lstrip('\\n') + '<|im_end|>' }}END{{- '\\n' }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' }}GEN{{- content + '<|im_end|>' }}END{{- '\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

LLAMA3_1 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}GEN{{- message['content'] | trim +
            '<|eot_id|>' }}END
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " }}GEN{{- message["content"]|trim + eos_token }}END
    {%- endif %}
{%- endfor %}"""

SHAPES = {  # template and special tokens; the first begins a text, the last ends it
    "smollm2": (SMOLLM2, ["<|im_start|>", "<|endoftext|>", "<|im_end|>"]),
    "qwen2.5": (QWEN2_5, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "qwen3": (QWEN3, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "llama3.1": (LLAMA3_1, ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
    "mistral": (MISTRAL, ["<s>", "[INST]", "[/INST]", "</s>"]),
}


def without_generation(template):
    return template.replace("GEN", "").replace("END", "")


def with_generation(template):
    return template.replace("GEN", "{%- generation %}").replace("END", "{%- endgeneration %}")


@pytest.fixture
def folder_of(tmp_path, byte_level):
    """folder_of(template, special) writes a folder with the template and a byte-level BPE with these
    special tokens. Returns the tokenizer as transformers reads it."""
    return lambda template, special: write_folder(tmp_path / "tokenizer", byte_level(special), template, special)


def write_folder(path, tokenizer, template, special, in_config=False):
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[-1])
    fast.chat_template = template
    fast.save_pretrained(path)
    if in_config:
        (path / "chat_template.jinja").unlink()
        config = json.loads((path / "tokenizer_config.json").read_text())
        (path / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
    return fast


CHATS = [{"messages": [{"role": "user", "content": "Two plus two?"}, {"role": "assistant", "content": "Four."}]}]


@pytest.fixture
def tried(try_prepare, tmp_path, chatml):  # noqa: F811
    def call(template, chats=CHATS, **data):
        (tmp_path / "tokenizer/chat_template.jinja").write_text(template)
        return try_prepare({"kind": "messages", "tokenizer": chatml, **data,
                            "train": written(tmp_path / "chats.jsonl", chats)})

    return call


def test_a_format_outranks_the_template_and_says_so(tried):
    done, by_format = tried(without_generation(SMOLLM2), format="chatml")
    assert ("written by data.format chatml, not by the chat template of the tokenizer's folder, which writes them if "
            "data.format is left out") in done.stdout
    done, by_template = tried(without_generation(SMOLLM2))
    assert "data.format" not in done.stdout and len(by_template.tokens[0]) > len(by_format.tokens[0])


def test_a_changed_template_makes_other_tokens(tried):
    first = tried(without_generation(SMOLLM2))[1]
    second = tried(without_generation(SMOLLM2).replace("SmolLM", "Smol"))[1]
    assert first.tokens != second.tokens


def test_chats_without_format_and_template_are_refused(try_prepare, tmp_path, chatml):  # noqa: F811
    done, _ = try_prepare({"kind": "messages", "tokenizer": chatml, "train": written(tmp_path / "chats.jsonl", CHATS)})
    assert done.returncode == 2 and "'data.format': is missing" in done.stderr
    assert "llama2, llama3, chatml, mistral, or a tokenizer's folder that has a chat template" in done.stderr


TURNS = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"


@pytest.mark.parametrize(("template", "problem"), [
    ("{{ raise_exception('roles must alternate') }}", "chats.jsonl:1: cannot be written by the chat template of"),
    ("{{ raise_exception('roles must alternate') }}", "chat_template.jinja: roles must alternate"),
    ("{% for m in messages %}{{ m.content[:3] }}{% endfor %}", "it changes, repeats or leaves out an answer"),
    ("{{ messages[-1].content }} {{ messages[-1].content }}", "it changes, repeats or leaves out an answer"),
    ("{{ messages[-1].content.split('our')[-1] }}", "it changes, repeats or leaves out an answer"),
    ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "it changes, repeats or leaves out an answer"),
    ("{% if false %}{% generation %}x{% endgeneration %}{% endif %}hello", "'data.train': has nothing to train on: not one token"),
    ("{{ ['a', 'b'] | random }}", "No filter named 'random'"),
    ("{{ 'a' * 70000000 }}", "it writes more than 67108864 characters"),
    ("{{ messages[0].nothing.at_all }}", "has no attribute 'nothing' (line 1 of the template)"),
    ("{% for m in messages %}", "has a chat template that cannot be read: "),
    ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
    ("{{ messages.append(1) }}", "SecurityError"),
    ("{{ cycler.__init__.__globals__.os.system('touch escaped') }}", "SecurityError"),
    ("{{ 'a' * 10000000000 }}", "it takes more than 2 GiB of memory"),
    ("{{ raise_exception }}", "it writes <function refuse at 0x"),
    ("{{ 'a' ~ messages[0].items }}", "dict object at 0x"),
    ("{% include '/etc/passwd' %}", "it fails with TypeError: no loader for this environment specified"),
])
def test_a_template_that_writes_no_chat_is_an_error(tried, tmp_path, template, problem):
    done, prepared = tried(template)
    assert done.returncode == 2 and prepared is None
    assert problem in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("template", [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{{ (7**9999999) % 3 }}" * 50])
def test_a_template_that_writes_without_end_is_an_error(tried, tmp_path, monkeypatch, template):
    """The limit is 1 s here, instead of 10 s."""
    shorter = 'import sys\nexec(sys.argv.pop(1).replace("\\nSECONDS = 10\\n", "\\nSECONDS = 1\\n"))'
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nshift 2\nexec {sys.executable} -I -c '{shorter}' \"$@\"\n")
    python.chmod(0o755)
    monkeypatch.setenv("FSDP_PYTHON", str(python))
    done, prepared = tried(template)
    assert done.returncode == 2 and prepared is None
    assert "it takes more than 1 s" in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


@pytest.mark.parametrize("answer", [
    "<think>\nlet me see\n</think>\n\nFour.", "<think>\n\n</think>Four.", "It ends in </think>", "<think></think>", "",
    "  ", "Four.\n", "\n Four.", "{{ messages }}", "<function f at 0x7f3a>", "a\r\nb\0c", "x" * 100_000])
def test_a_whole_answer_is_trained_on_with_its_end(prepare, folder_of, tmp_path, answer):
    fast = folder_of(TURNS, SHAPES["qwen2.5"][1])
    turns = [{"role": "user", "content": "Two plus two?"}, {"role": "assistant", "content": answer},
             {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Five."}]
    prepared = prepare({"kind": "messages", "tokenizer": str(tmp_path / "tokenizer"),
                        "train": written(tmp_path / "chats.jsonl", [{"messages": turns}])})
    tokens = fast.apply_chat_template(turns)["input_ids"]
    assert prepared.tokens == [tokens]
    decoded = fast.decode([label for label in prepared.labels[0] if label != -100])
    assert decoded.replace(" ", "") == f"{answer}<|im_end|>Five.<|im_end|>".replace(" ", "")


@pytest.mark.parametrize("token", [AddedToken("<|im_end|>", special=False, normalized=False),
                                   AddedToken("<|im_end|>", special=True, normalized=True)], ids=["plain", "normalized"])
def test_the_token_that_ends_an_answer_need_not_be_marked_as_special(prepare, folder_of, tmp_path, token):
    folder = tmp_path / "tokenizer"
    fast = folder_of(TURNS, ["<|endoftext|>", "<|im_start|>"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([token])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=token)
    fast.chat_template = TURNS
    shutil.rmtree(folder)
    fast.save_pretrained(folder)
    prepared = prepare({"kind": "messages", "tokenizer": str(folder), "train": written(tmp_path / "chats.jsonl", CHATS)})
    assert prepared.tokens == [fast.apply_chat_template(CHATS[0]["messages"])["input_ids"]]
    assert prepared.labels[0][-1] == fast.convert_tokens_to_ids("<|im_end|>")


def test_answers_that_no_token_ends_are_counted(tried):
    done, _ = tried("{% for m in messages %}{{ m.content }}. {% endfor %}", CHATS * 3)
    assert "turns: 3 assistant (trained on), 3 user; no token ends 3 of the answers" in " ".join(done.stdout.split())


def test_a_template_knows_all_tokens_of_the_config(prepare, folder_of, tmp_path):
    folder = tmp_path / "tokenizer"
    folder_of(TURNS + "{{ image_token }}{{ boi_token }}{{ eos_token }}", SHAPES["qwen2.5"][1])
    config = json.loads((folder / "tokenizer_config.json").read_text())
    more = {"image_token": "<|im_start|>", "extra_special_tokens": {"boi_token": "<|endoftext|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | more))
    fast = AutoTokenizer.from_pretrained(folder)
    prepared = prepare({"kind": "messages", "tokenizer": str(folder), "train": written(tmp_path / "chats.jsonl", CHATS)})
    assert prepared.tokens == [fast.apply_chat_template(CHATS[0]["messages"])["input_ids"]]
    assert fast.decode(prepared.tokens[0]).endswith("<|im_start|><|endoftext|><|im_end|>")


@pytest.mark.parametrize(("script", "problem"), [
    ("exit 1", "ended without an answer"), ("echo Loading module; cat", "parse error"), ("echo []; cat", "answers something else"),
    ("echo '{\"missing\": \"jinja2 is 3.1.2; needed: 3.1.6, or later\"}'", "jinja2 is 3.1.2"),
    ("read line; echo {}; exec sleep 0.1", "ended without an answer"), (None, "No such file or directory")])
def test_another_python_is_refused_with_what_to_do(tried, tmp_path, monkeypatch, script, problem):
    python = tmp_path / "python"
    if script:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    monkeypatch.setenv("FSDP_PYTHON", str(python))
    chats = [{"messages": [{"role": "user", "content": "x" * 1_000_000}, {"role": "assistant", "content": "y"}]}]
    done, prepared = tried(TURNS, chats)
    assert done.returncode == 2 and prepared is None and problem in done.stderr
    if "read line" not in str(script):
        assert "let FSDP_PYTHON name a Python that has it, or give a format" in " ".join(done.stderr.split())


def test_answers_that_have_the_marks_of_answers(prepare, folder_of, tmp_path):
    """The chat contains private-use characters, which render_chats.py uses as marks."""
    fast = folder_of(TURNS, SHAPES["qwen2.5"][1])
    turns = [{"role": "user", "content": "\U000f0000"}, {"role": "assistant", "content": "a\U000f0000b\U000f0003"}]
    prepared = prepare({"kind": "messages", "tokenizer": str(tmp_path / "tokenizer"),
                        "train": written(tmp_path / "chats.jsonl", [{"messages": turns}])})
    assert prepared.tokens == [fast.apply_chat_template(turns)["input_ids"]]
    trained = [label for label in prepared.labels[0] if label != -100]
    assert fast.decode(trained) == " a\U000f0000b\U000f0003<|im_end|>"


def test_the_date_of_a_template_is_always_the_same(prepare, folder_of, tmp_path):
    fast = folder_of("{{ strftime_now('%d %b %Y') }}" + TURNS, SHAPES["qwen2.5"][1])
    prepared = prepare({"kind": "messages", "tokenizer": str(tmp_path / "tokenizer"),
                        "train": written(tmp_path / "chats.jsonl", CHATS)})
    assert fast.decode(prepared.tokens[0]).startswith("26 Jul 2024<|im_start|>user")
