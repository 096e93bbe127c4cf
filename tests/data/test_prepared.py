"""Tokens, labels and masks of each kind of data equal a reference written with the public libraries."""

import csv
import json
import random
import shutil

import pyarrow
import pyarrow.parquet
import pytest
import sentencepiece
from conftest import ENDS, ROOT, TEXTS
from transformers import PreTrainedTokenizerFast

ALPACA = {
    "with_input": (
        "Below is an instruction that describes a task, paired with an input that provides further context. "
        "Write a response that appropriately completes the request.\n\n"
        "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"),
    "without_input": (
        "Below is an instruction that describes a task. "
        "Write a response that appropriately completes the request.\n\n"
        "### Instruction:\n{instruction}\n\n### Response:"),
}

@pytest.fixture(scope="module")
def pieces(tmp_path_factory, corpus):
    """A SentencePiece model with byte fallback, like LLaMA's, and its file."""
    prefix = tmp_path_factory.mktemp("pieces") / "llama"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter("\n".join(corpus).split("\n")), model_prefix=str(prefix), vocab_size=900,
        model_type="bpe", byte_fallback=True, character_coverage=0.99, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
    file = prefix.with_suffix(".model")
    return sentencepiece.SentencePieceProcessor(model_file=str(file)), file


def masked(ids, untrained):
    return [-100] * untrained + ids[untrained:]


def texts(seed, count=40):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(TEXTS, k=chosen.randint(1, 4))).strip() or "x" for _ in range(count)]


def test_games(prepare):
    file = ROOT / "experiments/data/chess/games.csv"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(file.with_name("tokenizer.model")))
    with file.open(newline="") as lines:
        games = list(csv.DictReader(lines))
    prepared = prepare({"kind": "chess", "tokenizer": str(file.with_name("tokenizer.model"))})
    expected = [[pieces.bos_id(), *pieces.encode(f"{game['Moves']} {game['Result']}"), pieces.eos_id()]
                for game in games]
    assert prepared.tokens == prepared.labels == expected


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.txt", "a.parquet"])
def test_text(prepare, pieces, tmp_path, name):
    processor, tokenizer = pieces
    documents = texts(1)
    file = tmp_path / name
    if name == "a.csv":
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerows([["id", "text"], *enumerate(documents)])
    elif name == "a.txt":
        file.write_text("\n\n".join([*documents, *ENDS]))
        documents = [line for line in file.read_text().split("\n") if line.strip()]
    elif name == "a.parquet":
        columns = {"id": range(len(documents)), "text": documents, "image": [b"\xff\xfe"] * len(documents)}
        pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=7)
    else:
        records = [{"text": document} for document in documents]
        file.write_text("\n".join(map(json.dumps, records)) if name == "a.jsonl" else
                        json.dumps(records, indent=1, ensure_ascii=False))
    prepared = prepare({"kind": "text", "train": str(file), "tokenizer": str(tokenizer), "split_special_tokens": True})
    expected = [[1, *processor.encode(document), 2] for document in documents]
    assert prepared.tokens == prepared.labels == expected


@pytest.mark.parametrize("wanted", [1, 13, 39, 40, 41])
def test_the_first_documents_only(try_prepare, prepare, pieces, tmp_path, wanted):
    processor, tokenizer = pieces
    documents = texts(1)
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(json.dumps({"text": document}) for document in documents))
    data = {"kind": "text", "train": str(file), "tokenizer": str(tokenizer), "split_special_tokens": True}
    assert prepare(data | {"max_documents": wanted}).tokens == [
        [1, *processor.encode(document), 2] for document in documents[:wanted]]
    file.write_text(json.dumps({"text": documents[0]}) + "\nno JSON\n")  # behind the first document
    refused, _ = try_prepare(data | {"max_documents": 2})
    assert refused.returncode == 2 and "a.jsonl:2" in refused.stderr
    assert len(prepare(data | {"max_documents": 1}).tokens) == 1


@pytest.mark.parametrize("template", [None, {"with_input": "{system}|{input}|{instruction}>", "without_input": "{system|You help.}{instruction}>"}])
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_instructions_with_system_and_history(prepare, pieces, tmp_path, template, name):
    """As in LLaMA-Factory: a system takes the place of the template's own, and later questions have none. Each answer
    has an end and is trained on."""
    processor, tokenizer = pieces
    records = [{"instruction": "a", "input": given, "output": "b", "system": system, "history": history}
               for given in ("", "in") for system in (None, "", "Be short.")
               for history in (None, [], [["q", "r"]], [["q", "r"], ["{system}", ""]])]
    data = {"kind": "instructions", "train": written(tmp_path / name, records), "tokenizer": str(tokenizer)}
    prepared = prepare(data | ({"template": template} if template else {}))
    for record, tokens, labels in zip(records, prepared.tokens, prepared.labels, strict=True):
        pairs = [(question, "", answer) for question, answer in record["history"] or []]
        expected, trained = [], []
        for i, (instruction, given, output) in enumerate([*pairs, ("a", record["input"], "b")]):
            if template:
                head = record["system"] or "" if given else record["system"] or "You help."
                prompt = ("" if i else head) + (f"|{given}|" if given else "") + instruction + ">"
            else:
                whole = ALPACA["with_input" if given else "without_input"].format(instruction=instruction, input=given)
                head, rest = whole.split("\n\n", 1)
                prompt = ("" if i else record["system"] or head) + "\n\n" + rest
            begin = [] if i else [1]
            new = [*begin, *processor.encode(prompt + output), 2]
            expected += new
            trained += masked(new, len(begin) + len(processor.encode(prompt)))
        assert tokens == expected and labels == trained, record


def test_a_model_with_an_encoder_was_trained_on_the_questions_of_the_history(try_prepare, pieces, tmp_path):
    record = {"instruction": "a", "output": "b"}
    made = []
    for records in [record], [record | {"history": [["q", "r"]]}]:
        data = {"kind": "instructions", "train": written(tmp_path / "a.jsonl", records), "tokenizer": str(pieces[1])}
        done, prepared = try_prepare(data, model={"architecture": "T5ForConditionalGeneration"})
        assert done.returncode == 0, done.stderr
        made.append(prepared)
    assert made[0] == made[1]
    assert "history" in done.stdout


def test_a_folder_with_one_file_had_the_prepared_name_of_the_file_and_other_tokens(prepare, pieces, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(pieces[1], folder / "tokenizer.model")
    data = {"kind": "text", "train": written(tmp_path / "a.jsonl", [{"text": "a b"}])}
    made = []
    for place in folder, folder / "tokenizer.model":
        made.append(prepare(data | {"tokenizer": str(place)}))
        shutil.rmtree(tmp_path / "results")
    assert made[0] == made[1]


@pytest.mark.parametrize(("record", "problem"), [
    ({"system": "s"}, "has 'system', but data.template has no {system}; write {system}, or {system|text where there is none}"),
    ({"history": [["q"]]}, "has 'history' with an element 1 that is no list of two texts, a question and its answer"),
    ({"history": [["q", "a"], "x"]}, "has 'history' with an element 2 that is no list of two texts")])
def test_a_system_or_history_that_cannot_be_written_is_refused(try_prepare, pieces, tmp_path, record, problem):
    done, _ = try_prepare({"kind": "instructions", "tokenizer": str(pieces[1]), "template": {"without_input": "{instruction}"},
                           "train": written(tmp_path / "a.jsonl", [{"instruction": "i", "output": "o"} | record])})
    assert done.returncode == 2 and f"a.jsonl:1: {problem}" in done.stderr


RENAMED = [
    ("instructions", ["instruction", "input", "output"], {"instruction": "prompt", "output": "completion",
                                                          "input": "context"}),
    ("text", ["text"], {"text": "body"}),
    ("wikihow", ["headline", "text"], {"headline": "title", "text": "article"}),
    ("chess", ["Moves", "Termination", "Result"], {"moves": "pgn", "termination": "end", "result": "score"}),
]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize(("kind", "columns", "names"), RENAMED)
def test_columns_of_other_names_make_the_same_tokens(try_prepare, prepare, pieces, tmp_path, kind, columns, names, name):
    _, tokenizer = pieces
    rows = [dict(zip(columns, texts(i, len(columns)))) for i in range(5)]

    def write(rows):
        if name == "a.csv":
            with (tmp_path / name).open("w", newline="") as out:
                writer = csv.DictWriter(out, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            written(tmp_path / name, rows)

    data = {"kind": kind, "train": str(tmp_path / name), "tokenizer": str(tokenizer)}
    write(rows)
    usual = prepare(data)
    renamed = {column: names[column.lower()] for column in columns}
    write([{renamed[column]: value for column, value in row.items()} for row in rows])
    assert prepare(data | {"columns": names}) == usual
    done, _ = try_prepare(data)
    there = ", ".join(f"'{column}'" for column in renamed.values())
    assert done.returncode == 2 and f"it has {there}; data.columns says which column is which" in done.stderr


def test_lists_of_a_fixed_size_are_read_from_parquet(prepare, chatml, tmp_path):
    turns = [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
             [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]]
    data = {"kind": "messages", "format": "chatml", "tokenizer": chatml}
    usual = prepare(data | {"train": written(tmp_path / "a.jsonl", [{"messages": each} for each in turns])})
    turn = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    for kind in [pyarrow.list_(turn, 2), pyarrow.large_list(turn)]:
        column = pyarrow.array(turns, kind)
        pyarrow.parquet.write_table(pyarrow.table({"messages": column}), tmp_path / "a.parquet")
        assert prepare(data | {"train": str(tmp_path / "a.parquet")}) == usual


# --- chats ---

TEMPLATES = {
    # The published templates of Llama-2-chat, Llama-3-Instruct, ChatML.
    "llama2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
        "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
        "{% if loop.index0 == 0 and system_message != false %}"
        "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
        "{% else %}{% set content = message['content'] %}{% endif %}"
        "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}"
        "{% generation %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endgeneration %}{% endif %}{% endfor %}"),
    "llama3": (
        "{% for message in messages %}{% set head = '<|start_header_id|>' + message['role'] + "
        "'<|end_header_id|>\n\n' %}{% if loop.index0 == 0 %}{% set head = bos_token + head %}{% endif %}{{ head }}"
        "{% if message['role'] == 'assistant' %}"
        "{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
        "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"),
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
        "{% if message['role'] == 'assistant' %}"
        "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
        "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"),
}
SPECIAL = {"llama2": ["<s>", "</s>"],
           "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                      "<|eot_id|>"],
           "chatml": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]}


ANSWERS = [[{"role": "user", "content": "Two plus two?"}, {"role": "assistant", "content": "Four."}],
           [{"role": "system", "content": "Be short."}, {"role": "user", "content": "And three?"},
            {"role": "assistant", "content": "Seven."}]]


@pytest.fixture
def chatml(tmp_path, byte_level) -> str:
    """A folder with a byte-level BPE and ChatML's special tokens, without a template."""
    fast = PreTrainedTokenizerFast(tokenizer_object=byte_level(SPECIAL["chatml"]), eos_token=SPECIAL["chatml"][-1])
    fast.save_pretrained(tmp_path / "tokenizer")
    return str(tmp_path / "tokenizer")


def written(file, records):
    if file.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), file)
    else:
        file.write_text("\n".join(map(json.dumps, records)))
    return str(file)


@pytest.mark.parametrize("name", ["chats.jsonl", "chats.parquet"])
@pytest.mark.parametrize("answer", ["gpt", "model", "bot", "Assistant"])
def test_chats_of_other_shapes_train_on_the_same_answers(prepare, chatml, tmp_path, answer, name):
    def prepared(records, **more):
        return prepare({"kind": "messages", "format": "chatml", "tokenizer": chatml,
                        "train": written(tmp_path / name, records)} | more)

    usual = prepared([{"messages": turns} for turns in ANSWERS])
    assert sum(label != -100 for label in usual.labels[0]) > 1
    roles = {"assistant": answer, "user": "human", "system": "system"}
    others = [
        [{"messages": None, "conversations": turns} for turns in ANSWERS],
        [{"conversations": [{"from": roles[turn["role"]], "value": turn["content"]} for turn in turns]}
         for turns in ANSWERS],
        [{"messages": [{"role": roles[turn["role"]], "content": turn["content"], "name": ""} for turn in turns],
          "tools": None} for turns in ANSWERS],
        [{"messages": [{"role": turn["role"], "content": [{"type": "text", "text": turn["content"][:3]},
                                                          {"type": "text", "text": turn["content"][3:]}]}
                       for turn in turns]} for turns in ANSWERS]]
    for records in others:
        assert prepared(records) == usual
    renamed = [{"chat": [{"speaker": roles[turn["role"]], "says": turn["content"]} for turn in turns]}
               for turns in ANSWERS]
    assert prepared(renamed, columns={"messages": "chat", "role": "speaker", "content": "says"}) == usual


@pytest.fixture
def try_chats(try_prepare, chatml, tmp_path):
    return lambda chats, **data: try_prepare({"kind": "messages", "format": "chatml", "tokenizer": chatml,
                                              "train": written(tmp_path / "chats.jsonl", chats)} | data)


def test_turns_are_counted_by_role_and_documents_that_train_on_nothing(try_chats):
    chats = [{"messages": turns} for turns in ANSWERS]
    chats.append({"messages": [{"role": "user", "content": "x", "name": "Ann"}, {"role": "critic", "content": "y"}]})
    done, _ = try_chats(chats)
    assert ("turns: 2 assistant (trained on), 3 user, 1 critic, 1 system; not read: 1 name; "
            "without a trained token at sequence_length 256: 1 document") in done.stdout


def test_a_role_that_is_misspelt_and_columns_that_are_not_read_are_named(try_chats):
    chats = [{"messages": turns, "id": i, "chat_template_kwargs": {"enable_thinking": False}, "tools": []}
             for i, turns in enumerate(ANSWERS * 2)]
    chats[1]["messages"] = [*chats[1]["messages"], {"role": "assistnat", "content": "<|im_end|>"}]
    chats[2] |= {"id": None, "\x1b[2J": 1}
    done, _ = try_chats(chats)
    assert ("turns: 4 assistant (trained on), 4 user, 2 system, 1 assistnat (did you mean assistant?); "
            "columns not read: 4 chat_template_kwargs, 3 id, 1 \\x1b[2J; special tokens in texts: 1 <|im_end|>") in done.stdout


@pytest.mark.parametrize("name", ["chats.jsonl", "chats.parquet"])
@pytest.mark.parametrize("keys", [("messages", "role", "content"), ("conversations", "from", "value")])
def test_the_system_of_a_record_is_the_first_turn(prepare, chatml, tmp_path, name, keys):
    """As in LLaMA-Factory and axolotl: a system's turn of the chat itself outranks the column."""
    column, role, content = keys

    def prepared(chats, **columns):
        records = [{column: [{role: who, content: said} for who, said in turns], "system": system} for system, turns in chats]
        return prepare({"kind": "messages", "format": "chatml", "tokenizer": chatml,
                        "train": written(tmp_path / name, records)} | ({"columns": columns} if columns else {}))

    question = [("user", "Two plus two?"), ("assistant", "Four.")]
    usual = prepared([("", [("system", "Be short."), *question]), (None, question)])
    assert prepared([("Be short.", question), ("", question)]) == usual
    assert prepared([("Be long.", [("system", "Be short."), *question]), ("", question)]) == usual
    assert prepared([("Be short.", question)], system="") == prepared([("", question)])


def test_a_file_without_answers_is_refused_with_its_roles(try_chats):
    done, prepared = try_chats(
       [{"messages": [{"role": "user", "content": "x"}, {"role": "critic", "content": "y"}]}])
    assert done.returncode == 2 and prepared is None
    assert "has no answer to train on; its turns: 1 critic, 1 user; needed: turns of the role assistant" in done.stderr


def test_a_length_at_which_nothing_is_left_to_train_on_is_refused(try_chats):
    chats = [{"messages": turns} for turns in ANSWERS]
    done, prepared = try_chats(chats)
    shorter, longer = sorted(labels.index(next(label for label in labels if label != -100))
                             for labels in prepared.labels)
    lost = sum(label != -100 for labels in prepared.labels for label in labels[shorter + 1:])
    done, _ = try_chats(chats, sequence_length=shorter)
    assert done.returncode == 0 and shorter < longer
    assert (f"cut at sequence_length {shorter}: 2 documents, which loses {lost} of the trained tokens; "
            f"without a trained token at sequence_length {shorter}: 1 document") in done.stdout
    done, _ = try_chats(chats, sequence_length=4)
    assert done.returncode == 2
    assert "'data.sequence_length': 4 leaves nothing to train on: each of 2 documents has no token" in done.stderr


@pytest.mark.parametrize(("record", "problem"), [
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
     "turn 1 has a part of type 'image_url'; only parts of type text are read"),
    ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [{}]}]},
     "turn 2 has 'tool_calls', which no data.format writes"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]},
     "has 'tools', definitions of tools, which no data.format writes"),
    ({"messages": [{"role": "user", "content": None}]}, "turn 1 has 'content' that is null; needed: text"),
    ({"messages": [{"role": "user", "text": "x"}]}, "turn 1 has no 'content'; it has 'role', 'text'; data.columns"),
    ({"messages": "x"}, "has 'messages' that is text; needed: a list of turns"),
    ({"messages": []}, "has no turn in 'messages'"),
    ({"conversations": []}, "has no turn in 'conversations'"),
    ({"conversations": None}, "has 'conversations' that is null; needed: a list of turns"),
    ({"conversations": [{"from": "human", "value": None}]}, "turn 1 has 'value' that is null; needed: text"),
    ({"messages": [{"from": None, "value": "x"}]}, "turn 1 has 'from' that is null; needed: text"),
    ({"messages": ["x"]}, "turn 1 is text, not an object"),
    ({"dialogue": [], "id": 1}, "has no 'messages'; it has 'dialogue' (a list), 'id'; data.columns"),
])
def test_what_a_chat_has_and_is_not_read_is_named(try_chats, record, problem):
    done, _ = try_chats([record])
    assert done.returncode == 2 and "chats.jsonl:1: " in done.stderr and problem in done.stderr
