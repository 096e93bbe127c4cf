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

EXPERIMENT = model_folders.experiment(model_folders.tiny_model(64))
MAGIC = b"\x93NUMPY"


def attack(case: Case) -> None:
    file = case.take("training/tokens.npy", "tokens.npy")
    evaluation = ""
    if case.random.random() < 0.2:
        evaluation = "  evaluation: {every_steps: 1, data: other.npy}\n"
        file = case.take("training/tokens.npy", "other.npy")
    case.write("experiment.yaml", EXPERIMENT + evaluation)
    case.random.choice([change_header, change_header, change_header, other_array, Case.damage,
                        replace])(case, file)
    if model_folders.judge(case, "experiment.yaml", trains=case.random.random() < 0.12):
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
    descr = random.choice(["'<i4'"] * 4 + ["'<i8'", "'>i4'", "'<f4'", "'|O'", "'<u4'", "'=i4'",
                                           "'i4'", "'|i4'", "[('a', '<i4')]", "''", "None", "'<i3'",
                                           "'<i4\\x1b'", "1", "'" + "x" * 5000 + "'"])
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
    array = case.random.choice([numpy.asfortranarray(good), good.astype(">i4"), good.astype("<i8"),
                                good.astype("<i2"), good.astype("f8"), good.astype(bool), good[:0],
                                good[:1], good[:, :16], good.reshape(-1), good + 1, good - 1, -good,
                                good.astype("<i8") + 2**32, numpy.full_like(good, 63),
                                numpy.full_like(good, -2**31), good.astype("u4"),
                                numpy.array([[1] * 17] * 3, dtype="<i4"), good.astype("S3"),
                                numpy.zeros((2, 0), "<i4")])
    buffer = io.BytesIO()
    numpy.save(buffer, array)
    file.write_bytes(buffer.getvalue())
    case.note(f"{array.dtype} {array.shape}")


def replace(case: Case, file: pathlib.Path) -> None:
    if case.random.random() < 1 / 7:
        case.note("large hole")
        return os.truncate(file, 1 << 20)
    if case.replace(file, ["folder", "loop", "dangling", "gone", "unreadable", "npz"]) == "npz":
        with open(file, "wb") as opened:
            numpy.savez(opened, numpy.zeros(3))
    return None
