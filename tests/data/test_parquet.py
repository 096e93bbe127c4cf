"""Parquet files that were written in different ways, and damaged ones, compared with pyarrow."""

import os
import random
import resource
import shutil

import pyarrow
import pyarrow.parquet
import pytest
from conftest import ROOT
from waiting import LIMIT_S

TOKENIZER = ROOT / "experiments/data/chess/tokenizer.model"
TEXTS = [f"{i}. e4 e5 {i + 1}. Nf3 é\n" * (1 + i % 5) for i in range(500)]


@pytest.fixture
def prepare_file(try_prepare):
    """prepare_file(file): try_prepare for a file of texts."""
    return lambda file, **options: try_prepare(
        {"kind": "text", "train": str(file), "tokenizer": str(TOKENIZER)}, **options)


def written(file, texts=TEXTS, kind=None, **options):
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(texts, kind)}), file, **options)
    return file


@pytest.fixture
def expected(prepare_file, tmp_path):
    _, prepared = prepare_file(written(tmp_path / "plain.parquet", compression="none"))
    return prepared


@pytest.mark.parametrize("options", [
    {"compression": "snappy"}, {"compression": "gzip"}, {"compression": "zstd"}, {"compression": "lz4"},
    {"compression": "brotli"}, {"row_group_size": 33}, {"use_dictionary": False}, {"version": "1.0"},
    {"data_page_version": "2.0", "data_page_size": 500}, {"write_page_checksum": True},
    {"kind": pyarrow.binary()}, {"kind": pyarrow.large_string()},
    {"kind": pyarrow.dictionary(pyarrow.int32(), pyarrow.string())},
], ids=str)
def test_every_way_to_write_text_gives_the_same_tokens(prepare_file, expected, tmp_path, options):
    done, prepared = prepare_file(written(tmp_path / "other.parquet", **options))
    assert prepared is not None, done.stderr
    assert prepared.tokens == expected.tokens


def test_a_runner_without_the_reader_says_how_it_is_built(runner, prepare_file, tmp_path):
    alone = shutil.copy(runner, tmp_path)
    libraries = os.environ | {"LD_LIBRARY_PATH": str(runner.parent / "lib")}
    done, _ = prepare_file(written(tmp_path / "a.parquet"), runner=alone, env=libraries)
    assert done.returncode == 2
    assert "a.parquet: is Parquet, and the reader of Parquet is not built; ./fsdp-run FILE builds it" in done.stderr


def refusal(prepare_file, file):
    done, prepared = prepare_file(file)
    assert done.returncode == 2 and prepared is None
    assert str(file) in done.stderr
    return done.stderr


def test_a_row_that_is_wrong_is_named_by_its_number(prepare_file, tmp_path):
    texts = [*TEXTS[:99], None, *TEXTS]
    assert "a.parquet:100: has null as 'text'" in refusal(prepare_file, written(tmp_path / "a.parquet", texts))
    numbers = written(tmp_path / "b.parquet", range(9))
    assert "b.parquet:1: has something else than text in 'text'" in refusal(prepare_file, numbers)
    long = written(tmp_path / "c.parquet", ["short", "e" * (16 << 20)], compression="zstd")
    assert "c.parquet:2: a record of more than 16777216 bytes" in refusal(prepare_file, long)


def test_bytes_that_a_checksum_denies_are_not_read(prepare_file, tmp_path):
    file = written(tmp_path / "a.parquet", compression="none", use_dictionary=False, write_page_checksum=True)
    contents = file.read_bytes()
    middle = contents.index(b"e4", len(contents) // 2)
    file.write_bytes(contents[:middle] + b"d" + contents[middle + 1:])
    assert "a row that cannot be read" in refusal(prepare_file, file)


def test_more_memory_than_any_text_takes_is_refused(prepare_file, tmp_path):
    """16 rows of 20 MiB each are less than 1 MiB in the file."""
    file = written(tmp_path / "a.parquet", ["short", *["e" * (20 << 20)] * 16], compression="zstd",
                   use_dictionary=False)
    assert file.stat().st_size < 1 << 20
    assert "a.parquet:1: a row that cannot be read" in refusal(prepare_file, file)


def test_damaged_files_are_refused_or_read_and_end_nothing(prepare_file, expected, tmp_path):
    chosen = random.Random(16)
    whole = [written(tmp_path / "whole.parquet", compression=each, write_page_checksum=True).read_bytes()
             for each in ("none", "snappy", "zstd")]
    file = tmp_path / "damaged.parquet"
    limit = 8 << 30
    for i in range(60):
        contents = bytearray(chosen.choice(whole))
        if i % 3 == 0:
            del contents[chosen.randrange(len(contents)):]
        else:
            span = range(len(contents)) if i % 3 == 1 else range(len(contents) - 1000, len(contents))
            for _ in range(chosen.choice((1, 3))):
                contents[chosen.choice(span)] ^= 1 << chosen.randrange(8)
        file.write_bytes(contents)
        done, prepared = prepare_file(
            file, timeout=LIMIT_S, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        assert done.returncode in (0, 2), (i, done.returncode, done.stderr)
        assert prepared is None or len(prepared.tokens) == len(TEXTS)
        if done.returncode == 2:
            assert "damaged.parquet" in done.stderr
