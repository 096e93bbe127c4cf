"""Makes valid artefacts by real runs, once per invocation. Every case begins with copies of
them."""

import json
import os
import pathlib
import shutil
import struct
import subprocess

import numpy

from tests.fetch.hub import Hub, Repository
from tests.hostile.case import Programs

# The stub trainer's sweep: runs of one and two ranks, one that fails, one out of memory.
SWEEP = """\
experiment: trial
title: What the cases begin with
base:
  train: {steps: 6, warmup_steps_excluded: 1}
  device: cpu
  data: {kind: tokens, train: tokens.npy, sequence_length: 16}
  evaluation: {every_steps: 3, fraction: 0.2}
  checkpoint: {every_steps: 3}
  batch: {size_per_rank: 2}
points:
  - {name: one}
  - {name: ddp, strategy: {kind: ddp, ranks: 2}}
  - {name: fsdp, strategy: {kind: fsdp, ranks: 2}}
  - {name: broken, train.seed: 2}
  - {name: too large, batch.size_per_rank: 4}
"""
RULES = "point=broken,step=3,fail=it broke; batch_above=3,step=2,out_of_memory=no room"

# The real trainer's experiment. The model is tiny, so it starts and steps fast.
MODEL = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 32,
         "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 64}
TRAINING = """\
experiment: training
base:
  resume: auto
  train: {steps: 4, warmup_steps_excluded: 0}
  device: cpu
  threads_per_rank: 1
  data: {kind: tokens, train: tokens.npy, sequence_length: 16}
  checkpoint: {every_steps: 2}
  batch: {size_per_rank: 2}
  model: {config: %s}
points:
  - {name: full, checkpoint.state_dict: full}
  - name: sharded
    checkpoint.state_dict: sharded
    strategy: {kind: fsdp, ranks: 2}
    batch.size_per_rank: 1
""" % json.dumps(MODEL)

# The names of a model and of data on a hub.
HUB_MODEL, HUB_ROWS = "org/model", "datasets/org/rows"
HUB_EXPERIMENT = f"""\
experiment: hub
base:
  model: {{source: {HUB_MODEL}}}
  train: {{steps: 2}}
  device: cpu
  threads_per_rank: 1
  data: {{kind: tokens, train: "hf://{HUB_ROWS}/data", sequence_length: 16}}
  evaluation: {{every_steps: 1, data: "hf://{HUB_ROWS}/other/val.npy"}}
  batch: {{size_per_rank: 2}}
"""


def make(folder: pathlib.Path, programs: Programs) -> None:
    """Makes these folders:

    - sweep/: an experiment and its results, by the stub trainer
    - training/: an experiment and its results, by the real trainer
    - model/, sharded_model/: Hugging Face folders
    - full/, sharded/: checkpoints after step 2
    - calibrated/: results with a calibration of training/'s first point
    - hub_cache/: the cache of a hub
    """
    for name, experiment, trainer in (("sweep", SWEEP, programs.stub_trainer),
                                      ("training", TRAINING, programs.trainer)):
        part = folder / name
        part.mkdir(parents=True)
        rows = numpy.random.default_rng(7).integers(0, MODEL["vocab_size"], (40, 17), dtype=numpy.int32)
        numpy.save(part / "tokens.npy", rows)
        (part / "experiment.yaml").write_text(experiment)
        call(programs, "experiment.yaml", "--trainer", trainer, folder=part,
             status=1 if name == "sweep" else 0, TMPDIR=str(folder), STUB_RULES=RULES)
    for name in ("full", "sharded"):
        [checkpoint] = (folder / "training" / "results").glob(f"runs/training/*{name}-*/checkpoints/step-2")
        shutil.copytree(checkpoint, folder / name)
    make_model_folders(folder)
    call(programs, "calibrate", "experiment.yaml", "--only", "full", "--rounds", "1", "--trainer", programs.trainer,
         "--results", folder / "calibrated", folder=folder / "training", TMPDIR=str(folder))
    make_hub_cache(folder, programs)


def call(programs: Programs, *arguments, folder: pathlib.Path, status: int = 0, **environment: str) -> None:
    ended = subprocess.run([programs.runner, *arguments], cwd=folder, text=True, capture_output=True,
                           env={**os.environ, "LSAN_OPTIONS": "exitcode=99", **environment})
    if ended.returncode != status:
        raise SystemExit(f"the valid {arguments[0]} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")


def hub_repositories(folder: pathlib.Path) -> dict[str, Repository]:
    """Returns the hub's repositories. A fetch does not take files that begin with `unwanted`."""
    model = {file.name: file.read_bytes() for file in (folder / "sharded_model").iterdir()}
    tokens = (folder / "training/tokens.npy").read_bytes()
    return {HUB_MODEL: Repository({**model, "tokenizer_config.json": b"{}", "generation_config.json": b'{"a": 1}',
                                   "unwanted.gguf": b"GGUF"}),
            HUB_ROWS: Repository({"data/train.npy": tokens, "data/deep/er/README.md": b"rows",
                                  "other/val.npy": tokens, "unwanted/a.npy": tokens})}


def make_hub_cache(folder: pathlib.Path, programs: Programs) -> None:
    place = folder / "hub_cache"
    place.mkdir()
    (place / "experiment.yaml").write_text(HUB_EXPERIMENT)
    hub = Hub()
    try:
        hub.repositories = hub_repositories(folder)
        call(programs, "fetch", "experiment.yaml", folder=place, HF_HOME=str(place / "hf"), HF_ENDPOINT=hub.url)
    finally:
        hub.stop()


def make_model_folders(folder: pathlib.Path) -> None:
    """Makes Hugging Face folders of a checkpoint's model: one file, and two shards with an
    index."""
    for name in ("model", "sharded_model"):
        (folder / name).mkdir()
        shutil.copyfile(folder / "full" / "config.json", folder / name / "config.json")
    whole = folder / "full" / "model.safetensors"
    shutil.copyfile(whole, folder / "model" / "model.safetensors")
    header, data = read_safetensors(whole)
    names = [name for name in header if name != "__metadata__"]
    weight_map = {}
    for shard, part in enumerate((names[::2], names[1::2])):
        file = f"model-{shard + 1:05}-of-00002.safetensors"
        shard_header, shard_data = {}, b""
        for tensor in part:
            begin, end = header[tensor]["data_offsets"]
            offsets = [len(shard_data), len(shard_data) + end - begin]
            shard_header[tensor] = {**header[tensor], "data_offsets": offsets}
            shard_data += data[begin:end]
            weight_map[tensor] = file
        (folder / "sharded_model" / file).write_bytes(safetensors(shard_header, shard_data))
    (folder / "sharded_model" / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": len(data)}, "weight_map": weight_map}))


def read_safetensors(file: pathlib.Path) -> tuple[dict, bytes]:
    contents = file.read_bytes()
    [size] = struct.unpack("<Q", contents[:8])
    return json.loads(contents[8:8 + size]), contents[8 + size:]


def safetensors(header: dict | bytes, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
