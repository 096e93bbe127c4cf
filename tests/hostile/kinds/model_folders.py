"""Hugging Face folders: config.json, safetensors headers, the index of shards."""

import json
import pathlib
import struct

from tests.hostile import artefacts, figures, odd
from tests.hostile.case import Case



def experiment(model: str, data: str = "{kind: tokens, train: tokens.npy, sequence_length: 16}") -> str:
    return f"""\
experiment: hostile
base:
  model: {model}
  train: {{steps: 2}}
  device: cpu
  threads_per_rank: 1
  data: {data}
  batch: {{size_per_rank: 2}}
"""


def tiny_model(vocabulary: int) -> str:
    return ("{config: {num_hidden_layers: 1, hidden_size: 16, intermediate_size: 32, num_attention_heads: 2, "
            f"num_key_value_heads: 2, vocab_size: {vocabulary}}}}}")


EXPERIMENT = experiment("{source: model}")
LARGE_INDEX_TENSORS = 20_000


def attack(case: Case) -> None:
    case.take("training/tokens.npy", "tokens.npy")
    case.write("experiment.yaml", EXPERIMENT)
    folder = case.take(case.random.choice(["model", "sharded_model"]), "model")
    for _ in range(case.random.choice([1, 1, 2])):
        case.random.choice([change_config, change_config, replace_json, change_header, change_header, damage,
                            change_index, replace_file])(case, folder)
    judge(case, "experiment.yaml", trains=case.random.random() < 0.12)


def judge(case: Case, experiment: str, trains: bool) -> bool:
    """Checks that check, --dry-run and the trainer agree. Returns true if they accept the
    folder."""
    checked, _ = case.check_and_plan(experiment, check_sees_more=True)
    if not checked.ok or not trains:
        return checked.ok
    case.train(experiment, stub=False)
    for row in figures.check_results(case, case.work / "results"):
        if row["status"] == "failed" and "'" in (row["reason"] or
                                                 "") and "allowed" in row["reason"]:
            case.fail(f"check finds no mistake, but the trainer refuses it: {row['reason']}")
    return True


def change_config(case: Case, folder: pathlib.Path) -> None:
    try:
        config = json.loads((folder / "config.json").read_bytes())
        keys = [*config, "rope_scaling", "rope_parameters", "attention_bias", "quantization_config",
                "head_dim"]
    except (ValueError, OSError, TypeError, RecursionError):
        return
    if not isinstance(config, dict):
        return
    key = case.random.choice(keys)
    if case.random.random() < 0.15:
        config.pop(key, None)
        case.note(f"config.json without {key}")
    else:
        config[key] = case.random.choice([odd.scalar, odd.integer, odd.number,
                                          lambda random: {"rope_type": odd.text(random),
                                                          "factor": odd.number(random)},
                                          lambda random: [odd.scalar(random)]])(case.random)
        case.note(f"config.json: {key} = {str(config[key])[:60]!a}")
    (folder / "config.json").write_bytes(odd.json_of(case.random, config))


def replace_json(case: Case, folder: pathlib.Path) -> None:
    file = case.random.choice(sorted(folder.glob("*.json")) or [folder / "config.json"])
    contents = case.random.choice([odd.nested(case.random), odd.nested(case.random, '{"a":', "}"),
                                   "[]", "null", "", "{}", '{"a": 1, "a": 2}', "\ufeff{}",
                                   "{" + '"k":1,' * 100_000 + '"l":2}', '{"vocab_size": 1e999}',
                                   "\x00", "{} {}"])
    if file.exists() and not odd.is_changeable(file) or file.is_symlink():
        return
    file.write_text(contents)
    case.note(f"{file.name}: {contents[:30]!a}")


def damage(case: Case, folder: pathlib.Path) -> None:
    file = case.random.choice(sorted(filter(odd.is_changeable, folder.iterdir())) or [None])
    if file is not None:
        case.damage(file)


def change_header(case: Case, folder: pathlib.Path) -> None:
    """Makes a header of safetensors wrong."""
    files = [file for file in sorted(folder.rglob("*.safetensors")) if odd.is_changeable(file)
             and file.stat().st_size > 9]
    if not files:
        return
    file = case.random.choice(files)
    random = case.random
    try:
        header, data = artefacts.read_safetensors(file)
        names = [name for name in header if name != "__metadata__"]
        tensor = header[random.choice(names)]
    except (OSError, ValueError, IndexError, struct.error, TypeError, AttributeError,
            RecursionError):
        return
    what = random.choice(
        ["shape", "offsets", "dtype", "raw", "deep", "names", "length", "metadata", "overlap"])
    contents: bytes
    if what == "shape":
        tensor["shape"] = random.choice([[], [0], [-1], [2**63], [2**32, 2**32], [1] * 5000,
                                         tensor["shape"][::-1], [2**64 - 1, 0],
                                         [odd.scalar(random)], odd.scalar(random), [1.5]])
    elif what == "offsets":
        begin, end = tensor["data_offsets"]
        tensor["data_offsets"] = random.choice([[end, begin], [begin, end + 1], [-1, end], [begin],
                                                [0, 2**63], [2**63, 2**63], [begin + 4, end + 4],
                                                [2**64 - 4, 0], [begin, end, 0],
                                                [odd.scalar(random), end],
                                                odd.scalar(random)])
    elif what == "dtype":
        tensor["dtype"] = random.choice(["F64", "BF16", "I8", "F8_E4M3", "", "f32",
                                         odd.scalar(random)])
    elif what == "names":
        header[odd.text(random)] = header.pop(random.choice(names))
    elif what == "metadata":
        header["__metadata__"] = random.choice(
            [odd.scalar(random), {"a": odd.scalar(random)}, {odd.text(random): "x"}])
    elif what == "overlap":
        for name in names:
            header[name]["data_offsets"] = tensor["data_offsets"]
    text = json.dumps(header).encode("utf-8", "surrogateescape")
    if what == "deep":
        text = odd.nested(random, *random.choice([("[", "]"), ('{"a":', "}")])).encode()
    elif what == "raw":
        text, _ = odd.damaged(random, text)
    contents = artefacts.safetensors(text, data)
    if what == "length":
        length = random.choice([0, 1, 2**63, 2**64 - 1, 2**64 - 8, len(contents), 100_000_001,
                                len(text) - 1])
        contents = struct.pack("<Q", length) + contents[8:]
    file.write_bytes(contents)
    case.note(f"{file.name}: header, {what}")


def change_index(case: Case, folder: pathlib.Path) -> None:
    try:
        [file] = folder.glob("*.index.json")
        index = json.loads(file.read_bytes())
        names = list(index["weight_map"])
    except (ValueError, OSError, TypeError, KeyError, RecursionError):
        return
    random = case.random
    what = random.choice(["shard", "name", "map", "many"])
    if what == "shard":
        index["weight_map"][random.choice(names)] = random.choice([
            "../precious", "/etc/passwd", "config.json", "", ".",
            "model-00009-of-00002.safetensors", file.name, "gone.bin", "x" * 300,
            odd.scalar(random)
        ])
    elif what == "name":
        index["weight_map"][odd.text(random)] = index["weight_map"].pop(random.choice(names))
    elif what == "map":
        index["weight_map"] = random.choice([odd.scalar(random), [], {}])
    else:
        index["weight_map"].update({f"t{i}": names[0] for i in range(LARGE_INDEX_TENSORS)})
    file.write_bytes(odd.json_of(case.random, index))
    case.note(f"index: {what}")


def replace_file(case: Case, folder: pathlib.Path) -> None:
    file = case.random.choice(sorted(folder.iterdir()))
    if not file.is_dir() and not file.is_symlink():
        case.replace(file, ["gone", "folder", "loop", "dangling", "unreadable", "link"])
