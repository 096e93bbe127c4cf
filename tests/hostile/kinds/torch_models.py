"""Hugging Face folders with weights of torch.save: pickles that try to run code, that are wrong, or
that hold something else. Also damaged archives, and other formats."""

import io
import pathlib
import pickle
import pickletools
import struct
import zipfile

import torch

from tests.hostile import odd
from tests.hostile.case import Case
from tests.hostile.kinds import model_folders


class Runs:
    """A pickle of this object calls `function` when it is loaded."""
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def attack(case: Case) -> None:
    case.take("training/tokens.npy", "tokens.npy")
    case.write("experiment.yaml", model_folders.EXPERIMENT)
    folder = case.take(case.random.choice(["torch_model", "sharded_torch_model"]), "model")
    for _ in range(case.random.choice([1, 1, 2])):
        case.random.choice([
            run_code, change_tensors, change_tensors, change_pickle, change_pickle, change_archive,
            model_folders.change_index, damage, model_folders.replace_file
        ])(case, folder)
    model_folders.judge(case, "experiment.yaml", trains=case.random.random() < 0.12)


def a_file(case: Case, folder: pathlib.Path, read=lambda file: True) -> tuple:
    """Returns a file of weights and what `read` makes of it; twice None if there is none that it can read."""
    files = [file for file in sorted(folder.glob("*.bin")) if odd.is_changeable(file)]
    file = case.random.choice(files or [None])
    contents = read(file) if file else None
    return (file, contents) if contents else (None, None)


def saved(value, **options) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def load(file: pathlib.Path) -> dict | None:
    try:
        value = torch.load(file, weights_only=True)
    except Exception:
        return None
    if not isinstance(value, dict) or not value:
        return None
    return value if all(isinstance(tensor, torch.Tensor) for tensor in value.values()) else None


def run_code(case: Case, folder: pathlib.Path) -> None:
    import os
    import subprocess
    file, tensors = a_file(case, folder, load)
    if file is None:
        return
    runs = case.random.choice([Runs(os.system, "touch pwned"), Runs(eval, "open('pwned', 'w')"),
                               Runs(subprocess.call, ["touch", "pwned"]), Runs(open, "pwned", "w"),
                               Runs(print, "x" * 100_000), Runs(getattr, Runs(str), "join")])
    where = case.random.choice(["name", "tensor", "value", "all", "metadata"])
    if where == "all":
        tensors = runs
    elif where == "metadata":
        tensors["_extra"] = {"deep": [runs]}
    elif where == "name":
        tensors = {**tensors, (1, runs): 2}
    else:
        tensors[case.random.choice(list(tensors)) if where == "tensor" else "more"] = runs
    file.write_bytes(saved(tensors))
    case.note(f"{file.name}: {runs.call} as {where}")


def change_tensors(case: Case, folder: pathlib.Path) -> None:
    """Replaces a file by other contents, which torch.save writes."""
    file, tensors = a_file(case, folder, load)
    if file is None:
        return
    random = case.random
    name = random.choice(list(tensors))
    tensor = tensors[name]
    what = random.choice(["nan", "nested", "other", "name", "transposed", "dtype", "shape",
                          "legacy", "protocol", "list", "sparse", "quantized", "view", "extra",
                          "empty"])

    def changed(tensor):
        return {**tensors, name: tensor}

    tensors = {
        "nan": lambda: changed(tensor.flatten().index_fill(
            0, torch.tensor([random.randrange(tensor.numel())]),
            random.choice(odd.NOT_FINITE)).view(tensor.shape)),
        "nested": lambda: {"model": tensors, "epoch": odd.scalar(random)},
        "other": lambda: changed(odd.scalar(random)),
        "name": lambda: {odd.text(random): tensors.pop(name), **tensors},
        "transposed": lambda: changed(tensor.t().contiguous().t() if tensor.dim() == 2 else tensor[::2]),
        "dtype": lambda: changed(tensor.to(random.choice([
            torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.complex64, torch.float8_e4m3fn,
            torch.bool]))),
        "shape": lambda: changed(random.choice([tensor[:1], tensor.flatten(), tensor[:0], tensor[None]])),
        "list": lambda: random.choice([list(tensors.values()), tensor, None, {1: tensor}, {}]),
        "sparse": lambda: changed(tensor.to_sparse()),
        "quantized": lambda: changed(torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)),
        "view": lambda: changed(torch.cat([tensor.flatten()] * 2)[tensor.numel():].view(tensor.shape)),
        "extra": lambda: {**tensors, odd.text(random): torch.zeros(2)},
        "empty": lambda: {},
    }.get(what, lambda: tensors)()
    options = {"legacy": {"_use_new_zipfile_serialization": False},
               "protocol": {"pickle_protocol": random.choice([3, 4, 5])}}.get(what, {})
    file.write_bytes(saved(tensors, **options))
    case.note(f"{file.name}: {what}")


def members_of(file: pathlib.Path) -> dict[str, bytes] | None:
    try:
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except Exception:
        return None


def write_archive(file: pathlib.Path, members: dict[str, bytes],
                  method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)


def change_pickle(case: Case, folder: pathlib.Path) -> None:
    """Changes the pickle in an archive, and corrects its checksum."""
    file, members = a_file(case, folder, members_of)
    name = next((name for name in members or () if name.endswith("data.pkl")), None)
    if name is None:
        return
    random = case.random
    what = random.choice(["damage", "damage", "number", "opcode", "bomb", "cut", "other"])
    contents = members[name]
    if what == "damage":
        contents, _ = odd.damaged(random, contents)
    elif what in ("number", "opcode"):
        try:
            opcodes = list(pickletools.genops(contents))
        except ValueError:
            return
        numbers = [place for opcode, argument, place in opcodes
                   if what == "opcode" or opcode.name in ("BININT", "BININT1", "BININT2")]
        if not numbers:
            return
        place = random.choice(numbers)
        new = (bytes([random.randrange(256)]) if what == "opcode" else random.choice(
            [b"J" + struct.pack("<i", random.choice([-1, 2**31 - 1, -2**31, 0])),
             b"\x8a\x08" + struct.pack("<q", random.choice([2**63 - 1, -2**63, 2**62]))]))
        contents = contents[:place] + new + contents[place + 1:]
    elif what == "bomb":
        contents = b"\x80\x02" + random.choice([
            b"(" * 1_000_000, b")" * 1_000_000 + b".", b"}q\x01" + b"h\x01" * 500_000 + b"u.",
            b"}" + b"Nq\x01" * 300_000 + b".", b"(" * 1000 + b"t" * 1000 + b".",
            b"]" + b"]a" * 300_000 + b".", b"X\xff\xff\xff\x7f", b"\x8a\xff",
            b"c" + b"a" * 1_000_000 + b"\nb\n.", b"}(" + b"Nh\x01" * 9 + b"u."
        ])
    elif what == "cut":
        contents = contents[:random.randrange(len(contents) + 1)]
    else:
        contents = pickle.dumps(random.choice([{}, [], None, {"a": {}}, {"a": 1.5}, {1: 2}]), 2)
    write_archive(file, {**members, name: contents})
    case.note(f"{file.name}: data.pkl, {what}")


def change_archive(case: Case, folder: pathlib.Path) -> None:
    file, members = a_file(case, folder, members_of)
    if file is None:
        return
    random = case.random
    name = random.choice(list(members))
    what = random.choice(["compressed", "gone", "longer", "name", "twice", "order", "other", "prefix"])
    if what == "compressed":
        write_archive(file, members, zipfile.ZIP_DEFLATED)
    elif what == "twice":
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(name, b"again")
    elif what == "prefix":
        file.write_bytes(b"#!/bin/sh\n" + file.read_bytes())
    elif what == "other":
        file.write_bytes(random.choice([
            b"", b"PK", b"PK\x05\x06" + b"\0" * 18, b"PK\x05\x06" + b"\xff" * 18,
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            b"<html>404</html>", b"\x93NUMPY"
        ]))
    else:
        contents = members.pop(name)
        write_archive(file, {
            "gone": members,
            "longer": {**members, name: contents + b"\0" * random.choice([1, 4, 64])},
            "name": {**members, odd.text(random).partition("\0")[0] or "x": contents},
            "order": {key: b"big" if key.endswith("byteorder") else value
                      for key, value in {**members, name: contents}.items()}}[what])
    case.note(f"{file.name}: archive, {what}")


def damage(case: Case, folder: pathlib.Path) -> None:
    file, _ = a_file(case, folder)
    if file:
        case.damage(file)
