"""Writes the inputs that fuzzing begins with: valid files, in one folder per program below the
given folder."""

import csv
import io
import json
import pathlib
import sys
import tempfile
import zipfile

import safetensors.torch
import sentencepiece
import torch


TOKENIZERS = pathlib.Path(__file__).with_name("tokenizers")


def torch_file(value) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def weights() -> list[bytes]:
    linear = torch.nn.Linear(3, 2, bias=False)
    shared = torch.arange(6, dtype=torch.float32)
    return [torch_file(value) for value in (
        linear.state_dict(),
        {"a": linear.weight, "tied": linear.weight},
        {"first": shared[:2], "last": shared[2:].view(2, 2), "transposed": shared.view(2, 3).t()},
        {str(dtype): torch.zeros(2, dtype=dtype)
         for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.bool)},
        {"model": linear.state_dict(), "epoch": 3, "rate": 0.1, "list": [1, None, True]},
    )]


def pickle_in(file: bytes) -> bytes:
    return zipfile.ZipFile(io.BytesIO(file)).read("archive/data.pkl")


def records() -> list[bytes]:
    """Returns a record of each kind of data, in each format."""
    chat = [{"role": role, "content": f" {role}'s text "} for role in ("user", "assistant") * 2]
    kinds = [
        {"Moves": "1. e4 e5", "Termination": "CHECKMATE", "Result": "1-0"},
        {"text": 'a "text"\r\nof two lines, \u00e9'},
        {"headline": "a summary.", "text": "an article, ``long''"},
        {"instruction": "Add.", "input": "1, 2", "output": "3"},
        {"instruction": "Greet.", "input": None, "output": "hello {input}"},
        {"messages": chat, "more": [{"nested": [1, -2.5, True]}]},
        {"messages": [{"role": "system", "content": "Be short."}, *chat[:3]]},
    ]
    files = ["first line\n\nsecond \u00e9\r\nthird"]
    for record in kinds:
        columns = io.StringIO()
        writer = csv.DictWriter(columns, record)
        writer.writeheader()
        writer.writerows([record, record])
        files += [columns.getvalue(), json.dumps([record, record], indent=1),
                  f"{json.dumps(record)}\n{json.dumps(record, ensure_ascii=False)}\r\n"]
    return [file.encode() for file in files]


def sentencepiece_models() -> list[bytes]:
    """Returns a model of each type, with a small table of character rules."""
    models = []
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("41\t61\n41 42\t62 63\nFB01\t66 69\nA0\t20\n")
        rules.flush()
        for kind in ("unigram", "bpe", "char", "word"):
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(["the cat AB and the dog", "a dog and a cat"] * 20),
                model_writer=model, model_type=kind, vocab_size=30, hard_vocab_limit=False,
                user_defined_symbols=["<a>", "<ab>"], normalization_rule_tsv=rules.name,
                minloglevel=2)
            models.append(model.getvalue())
    return models


def seeds() -> dict[str, list[bytes]]:
    """Returns program -> its inputs."""
    tensors = {"a": torch.zeros(2, 3), "b": torch.zeros(1, dtype=torch.bfloat16)}
    return {
        "fuzz_torch_file": weights(),
        "fuzz_unpickler": [pickle_in(file) for file in weights()],
        "fuzz_safetensors": [safetensors.torch.save(tensors, {"format": "pt"}),
                             safetensors.torch.save({})],
        "fuzz_records": records(),
        "fuzz_sentencepiece": sentencepiece_models(),
        "fuzz_tokenizer": [file.read_bytes() for file in sorted(TOKENIZERS.iterdir())],
    }


def main() -> None:
    for program, files in seeds().items():
        folder = pathlib.Path(sys.argv[1]) / program
        folder.mkdir(parents=True, exist_ok=True)
        for number, contents in enumerate(files):
            (folder / f"seed-{number}").write_bytes(contents)


if __name__ == "__main__":
    main()
