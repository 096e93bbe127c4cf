"""Token arrays: wrong headers, other dtypes, orders and versions, damaged files. NumPy must read an
accepted file as the array that the run needs."""

import io
import os
import pathlib
import struct

import numpy

from tests.hostile import odd
from tests.hostile.case import Case
from tests.hostile.kinds import model_folders

EXPERIMENT = """\
experiment: tokens
base:
  train: {steps: 2}
  device: cpu
  threads_per_rank: 1
  data: {kind: tokens, train: tokens.npy, sequence_length: 16}
  batch: {size_per_rank: 2}
  model:
    config: {num_hidden_layers: 1, hidden_size: 16, intermediate_size: 32,
             num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 64}
"""
MAGIC = b"\x93NUMPY"


def attack(case: Case) -> None:
    file = case.take("training/tokens.npy", "tokens.npy")
    experiment = EXPERIMENT
    if case.random.random() < 0.2:
        experiment = experiment.replace(
            "  batch:", "  evaluation: {every_steps: 1, data: other.npy}\n  batch:")
        case.take("training/tokens.npy", "other.npy")
        file = case.work / "other.npy"
    case.write("experiment.yaml", experiment)
    case.random.choice([change_header, change_header, change_header, other_array, damage,
                        replace])(case, file)
    accepted = model_folders.judge(case, "experiment.yaml", trains=case.random.random() < 0.12)
    if accepted:
        judge_array(case, file)


def judge_array(case: Case, file: pathlib.Path) -> None:
    try:
        array = numpy.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        case.fail(f"accepted, but NumPy does not read it: {error}")
        return
    if array.ndim != 2 or array.shape[1] != 17 or array.dtype not in (numpy.int32, numpy.int64):
        case.fail(f"accepted, but it is {array.dtype} {array.shape}")
    elif array.min() < 0 or array.max() >= 64:
        case.fail(f"accepted, but its tokens are {array.min()} to {array.max()}")


def change_header(case: Case, file: pathlib.Path) -> None:
    random = case.random
    data = numpy.load(file).tobytes()
    rows, columns = 40, 17
    shape = random.choice([
        f"({rows}, {columns})", "(0, 18446744073709551615)", "(18446744073709551615, 0)",
        f"({rows},)", "()", f"(-{rows}, {columns})", f"({rows}, -{columns})", "(0, 17)",
        "(40, 17, 1)", "(4611686018427387904, 4)", "(1085102592571150096, 17)", "(40.0, 17)",
        "(1e1, 17)", "(True, 17)", "('a', 17)", "40", "(40, 17", "((40, 17),)",
        "(9223372036854775808, 2)", f"({'9' * 500}, 17)", "(" * 20000, "(40L, 17)", "(0x28, 17)"
    ])
    descr = random.choice(["'<i4'"] * 4 + [
        "'<i8'", "'>i4'", "'<f4'", "'|O'", "'<u4'", "'=i4'", "'i4'", "'|i4'", "[('a', '<i4')]",
        "''", "None", "'<i3'", "'<i4\\x1b'", "1", "'" + "x" * 5000 + "'"
    ])
    order = random.choice(["False"] * 4 + ["True", "0", "None", "'False'", "false"])
    text = random.choice(
        [f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"] * 5 + [
            f"{{'shape': {shape}, 'descr': {descr}, 'fortran_order': {order}}}",
            f"{{'descr': {descr}, 'descr': '<i8', 'fortran_order': {order}, 'shape': {shape}}}",
            f"{{'descr': {descr}, 'shape': {shape}}}", "", "{}", "[]",
            "__import__('os').system('touch pwned')",
            odd.nested(random),
            odd.nested(random, "{'a':", "}")
        ])
    version = random.choice([1, 1, 1, 1, 2, 3, 0, 4, 255])
    header = (text + " " * random.choice([0, 10, 60, 70000]) + "\n").encode()
    size = len(header) if random.random() < 0.85 else random.choice(
        [0, 1, 65535, 2**32 - 1, len(header) -
         1, len(header) + 1])
    packed = struct.pack("<H", min(size, 65535)) if version == 1 else struct.pack("<I", size)
    file.write_bytes(MAGIC + bytes([version, 0]) + packed + header + data)
    case.note(f"version {version}, size {size}, header {text[:120]!a}")


def other_array(case: Case, file: pathlib.Path) -> None:
    good = numpy.load(file)
    array = case.random.choice([
        numpy.asfortranarray(good),
        good.astype(">i4"),
        good.astype("<i8"),
        good.astype("<i2"),
        good.astype("f8"),
        good.astype(bool), good[:0], good[:1], good[:, :16],
        good.reshape(-1), good + 1, good - 1, -good,
        good.astype("<i8") + 2**32,
        numpy.full_like(good, 63),
        numpy.full_like(good, -2**31),
        good.astype("u4"),
        numpy.array([[1] * 17] * 3, dtype="<i4"),
        good.astype("S3"),
        numpy.zeros((2, 0), "<i4")
    ])
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    file.write_bytes(buffer.getvalue())
    case.note(f"{array.dtype} {array.shape}")


def damage(case: Case, file: pathlib.Path) -> None:
    contents, what = odd.damaged(case.random, file.read_bytes())
    file.write_bytes(contents)
    case.note(what)


def replace(case: Case, file: pathlib.Path) -> None:
    what = case.random.choice(
        ["folder", "loop", "dangling", "gone", "unreadable", "npz", "large hole"])
    case.note(what)
    if what == "unreadable":
        return file.chmod(0)
    if what == "large hole":
        with open(file, "r+b") as opened:
            opened.truncate(1 << 20)
        return None
    file.unlink()
    if what == "folder":
        file.mkdir()
    elif what == "npz":
        with open(file, "wb") as opened:
            numpy.savez(opened, numpy.zeros(3))
    elif what != "gone":
        os.symlink(file.name if what == "loop" else "nowhere", file)
    return None
