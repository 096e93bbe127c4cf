"""Writes the inputs that fuzzing begins with: valid files, one folder a program, into the folder
that is given."""

import io
import pathlib
import sys
import zipfile

import safetensors.torch
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


def seeds() -> dict[str, list[bytes]]:
    """By program."""
    tensors = {"a": torch.zeros(2, 3), "b": torch.zeros(1, dtype=torch.bfloat16)}
    return {
        "fuzz_torch_file": weights(),
        "fuzz_unpickler": [pickle_in(file) for file in weights()],
        "fuzz_safetensors": [safetensors.torch.save(tensors, {"format": "pt"}),
                             safetensors.torch.save({})],
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
