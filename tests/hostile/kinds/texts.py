"""Records of games, text, instructions, chats and summaries: invalid JSON, bytes that are not UTF-8,
absurd sizes."""

import io
import json
import pathlib

import pyarrow
import pyarrow.parquet

from tests.hostile import odd
from tests.hostile.case import Case
from tests.hostile.kinds import model_folders

TOKENIZER = pathlib.Path(__file__).resolve().parents[3] / "experiments/data/chess/tokenizer.model"
RECORDS = {
    "chess": {"Moves": "e4 e5 Nf3 Nc6", "Termination": "Normal", "Result": "1-0"},
    "text": {"text": "1. e4 e5"},
    "instructions": {"instruction": "Say e4.", "input": "", "output": "e4"},
    "messages": {"messages": [{"role": "user", "content": "e4?"}, {"role": "assistant", "content": "e5"}]},
    "wikihow": {"headline": "open", "text": "Play e4.\nThen e5."},
}


def attack(case: Case) -> None:
    random = case.random
    kind = random.choice(list(RECORDS))
    name = random.choice(["data.json", "data.jsonl", "data.csv", "data.txt", "data.parquet", "data"])
    case.write(name, random.choice([odd_records, odd_records, damaged, other])(case, kind, name))
    case.write("experiment.yaml", experiment(kind, name, random.choice(["pad", "pad_to_longest", "pack"])))
    model_folders.judge(case, "experiment.yaml", trains=random.random() < 0.15)


def experiment(kind: str, name: str, rows: str) -> str:
    return model_folders.experiment(
        model_folders.tiny_model(1024), f"{{kind: {kind}, train: {name}, tokenizer: {TOKENIZER}, "
        f"sequence_length: 16, rows: {rows}, format: mistral}}")


def parquet(records: list) -> bytes:
    try:
        return written_table(records)
    except (pyarrow.ArrowException, UnicodeEncodeError):  # mixed types, or an empty struct
        return written_table([{key: repr(value) for key, value in record.items()} for record in records])


def written_table(records: list) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), file, compression="none")
    return file.getvalue()


def written(records: list, name: str) -> bytes:
    return parquet(records) if name == "data.parquet" else text(records, name).encode("utf-8", "surrogateescape")


def text(records: list, name: str) -> str:
    if name == "data.jsonl":
        return "\n".join(json.dumps(record) for record in records)
    if name == "data.csv":
        columns = list(records[0])
        rows = [columns, *([str(record.get(column, "")) for column in columns] for record in records)]
        return "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    return json.dumps(records)


def odd_records(case: Case, kind: str, name: str) -> bytes:
    random = case.random
    records = [dict(RECORDS[kind]) for _ in range(random.choice([1, 4, 40, 40]))]
    for _ in range(random.choice([0, 1, 1, 3])):
        record = random.choice(records)
        column = random.choice(list(RECORDS[kind]))
        record[column] = random.choice([
            None, 1, [], {}, "", "x" * 3_000_000, odd.text(random), "\0", "</s>" * 1000, [{"role": "user"}],
            [{"role": "assistant", "content": "e5"}], [{"role": "user", "content": None}], [[]],
            [{"role": odd.text(random), "content": odd.text(random)}]
        ])
        case.note(f"odd {column}")
    return written(records, name)


def damaged(case: Case, kind: str, name: str) -> bytes:
    return case.damaged(written([RECORDS[kind]] * 40, name), name)


def other(case: Case, _kind: str, _name: str) -> str | bytes:
    contents = case.random.choice([
        "", "\n", "[", "[]", "{}", "[{}]", "[{}," * 10_000, "{\"text\":" * 50_000, "[" * 200_000, "null", "\"",
        "\x00" * 5000, b"\xff\xfe\x00", b"PAR1" + bytes(100), "a" * 17_000_000, "{\"text\":\"\\ud800\"}"
    ])
    case.note(f"only {contents[:20]!a}")
    return contents
