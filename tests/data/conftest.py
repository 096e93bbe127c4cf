import pathlib
import subprocess
from dataclasses import dataclass
from functools import cache

import numpy
import pytest
import yaml
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINED_ON = 1 << 31
HEADER_BYTES = 1688
# Around a text: white space of Python, and characters that look like it.
ENDS = ["", "\n", "  ", "\u00a0", "\u3000 ", "\x1c\x1f", "\x85", "\u2028\t", "\x0b\x0c", "\u200b", "\ufeff", "\u180e"]


TEXTS = [
    "Give three tips for staying healthy.", "¿Qué es un átomo? Un átomo…", "def f(x):\n    return x ** 2\n",
    "人类的基本权利有哪些?", "emoji 😀👍🏽 and\ttabs", "  spaces  at  both  ends  ", "a\n\n\nb", "",
    "\"quoted\", with commas", "1234567890 3.14 1e-5", "<s> is no token here, nor is </s>"
]


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return [(ROOT / name).read_text() for name in ("README.md", "ARCHITECTURE.md", "docs/trainer.md")] + TEXTS


@pytest.fixture(scope="session")
def byte_level(corpus):
    """byte_level(special, strips) returns the tokenizer.json of a byte-level BPE with these special
    tokens. With `strips`, each takes the white space around it. Each is trained once."""

    @cache
    def trained(special: tuple[str, ...], strips: bool = False) -> str:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
            vocab_size=1500, special_tokens=[AddedToken(text, lstrip=strips, rstrip=strips) for text in special],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        return tokenizer.to_str()

    return lambda special, strips=False: Tokenizer.from_str(trained(tuple(special), strips))


@dataclass(frozen=True)
class Prepared:
    """The documents of a prepared file. Labels are -100 for tokens without a loss, as in
    transformers."""

    tokens: list[list[int]]
    labels: list[list[int]]
    padding_id: int


def read_prepared(file: pathlib.Path) -> Prepared:
    """Reads the format that formats/data/prepared_file.h describes."""
    contents = file.read_bytes()
    assert contents[:8] == b"FSDPTOKS"
    _, documents, count, trained, _, _, padding_id = numpy.frombuffer(contents[8:64], "<u8").tolist()
    begin = HEADER_BYTES + 4 * (count + count % 2)
    flagged = numpy.frombuffer(contents[HEADER_BYTES:HEADER_BYTES + 4 * count], "<u4").astype(numpy.int64)
    offsets = numpy.frombuffer(contents[begin:], "<u8")
    assert len(offsets) == documents + 1
    is_trained = flagged >= TRAINED_ON
    assert is_trained.sum() == trained
    tokens = flagged & (TRAINED_ON - 1)
    labels = numpy.where(is_trained, tokens, -100)
    cut = offsets[1:-1].astype(numpy.int64)
    return Prepared([part.tolist() for part in numpy.split(tokens, cut)],
                    [part.tolist() for part in numpy.split(labels, cut)], padding_id)


@pytest.fixture
def try_prepare(runner, tmp_path):
    """try_prepare(data) runs `fsdp-run prepare` on a run with this section `data`. Returns the
    ended process, and the prepared file or None."""

    def call(data: dict, runner=runner, model=None, **options) -> tuple[subprocess.CompletedProcess, Prepared | None]:
        experiment = {"experiment": "reference",
                      "base": {"data": data, "device": "cpu",
                               "batch": {"size_per_rank": 1},
                               "model": {"config": {"vocab_size": 200_000} | (model or {})}}}
        file = tmp_path / "experiment.yaml"
        file.write_text(yaml.safe_dump(experiment))
        results = tmp_path / "results"
        done = subprocess.run([runner, "prepare", file, "--results", results], capture_output=True, text=True,
                              errors="replace", **options)
        made = [line.split("made ", 1)[1] for line in done.stdout.splitlines() if "made " in line]
        return done, read_prepared(pathlib.Path(made[0])) if made else None

    return call


@pytest.fixture
def prepare(try_prepare):
    """prepare(data): the prepared file of a run with this section `data`."""

    def call(data: dict) -> Prepared:
        done, prepared = try_prepare(data)
        assert done.returncode == 0, done.stderr
        assert prepared is not None, done.stdout
        return prepared

    return call
