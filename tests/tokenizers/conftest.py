import json
import pathlib
import subprocess

import pytest


def pytest_addoption(parser):
    parser.addoption("--texts", type=int, default=10_000, help="how many for each tokenizer")


class Ours:
    """The token ids that our tokenizer gives for texts, with the tokenizer of a file or folder."""

    def __init__(self, program: pathlib.Path, place: pathlib.Path, texts: list[str]):
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        done = subprocess.run([program, place], input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.about, *ids = map(json.loads, done.stdout.splitlines())
        self.plain = [each[0] for each in ids]
        self.with_special = [each[1] for each in ids]


@pytest.fixture
def ours(encode_text):
    return lambda place, texts: Ours(encode_text, place, texts)


@pytest.fixture
def text_count(request) -> int:
    return request.config.getoption("--texts")
