import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from hub import Hub, Repository
from safetensors.numpy import save
from waiting import LIMIT_S

HASTY_PYTHON = f'#!/bin/sh\nexec {sys.executable} -I {Path(__file__).parent / "hasty_python.py"} "$@"\n'
MODEL = "org/tiny-llama"
LAYERS, HIDDEN, INNER, VOCABULARY = 2, 64, 128, 1024


def random_tensors():
    random = numpy.random.default_rng(7)

    def tensor(*shape):
        return random.standard_normal(shape, dtype=numpy.float32)

    tensors = {"model.embed_tokens.weight": tensor(VOCABULARY, HIDDEN),
               "model.norm.weight": tensor(HIDDEN), "lm_head.weight": tensor(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        for name, shape in {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN),
                            "self_attn.v_proj": (HIDDEN, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
                            "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
                            "mlp.down_proj": (HIDDEN, INNER), "input_layernorm": (HIDDEN,),
                            "post_attention_layernorm": (HIDDEN,)}.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = tensor(*shape)
    return tensors


def model_files():
    """Returns a small LLaMA in two shards, with the other files of such a repository."""
    tensors = random_tensors()
    names = sorted(tensors)
    shards = {f"model-{number:05}-of-00002.safetensors": names[number - 1::2] for number in (1, 2)}
    index = {"metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
             "weight_map": {name: file for file, names in shards.items() for name in names}}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
              "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
              "num_key_value_heads": 4, "vocab_size": VOCABULARY, "max_position_embeddings": 256,
              "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
              "torch_dtype": "float32", "rope_theta": 10000.0}
    files = {file: save({name: tensors[name] for name in names}) for file, names in shards.items()}
    return {**files, "config.json": json.dumps(config).encode(),
            "model.safetensors.index.json": json.dumps(index).encode(),
            "generation_config.json": b"{}", "tokenizer_config.json": b'{"model_max_length": 256}',
            "tokenizer.json": b'{"version": "1.0"}', "tokenizer.model": b"pieces"}


UNWANTED = {"README.md": b"# A model", ".gitattributes": b"*.bin filter=lfs",
            "pytorch_model.bin": b"\0" * 200_000, "model.gguf": b"GGUF" * 50_000,
            "flax_model.msgpack": b"f" * 200_000, "tf_model.h5": b"t" * 200_000,
            "original/consolidated.00.pth": b"o" * 200_000, "onnx/model.onnx": b"x" * 200_000,
            "model.fp16.safetensors": b"h" * 200_000}


@pytest.fixture
def hub():
    hub = Hub()
    hub.repositories[MODEL] = Repository({**model_files(), **UNWANTED})
    games = Path(__file__).parents[2] / "experiments/data/chess/games.csv"
    hub.repositories["datasets/org/games"] = Repository(
        {"data/train.csv": games.read_bytes(), "data/test.csv": games.read_bytes()[:5000], "README.md": b"games"})
    yield hub
    hub.stop()


class Workplace:
    """A folder with experiment.yaml and a cache for a hub's files. The cache is empty at first."""

    def __init__(self, folder, hub, runner, stub_trainer):
        self.folder, self.hub, self.runner, self.stub_trainer = folder, hub, runner, stub_trainer
        self.home = folder / "hf"
        self.experiment = folder / "experiment.yaml"
        self.results = folder / "results"
        self.python = folder / "python"
        self.python.write_text(HASTY_PYTHON)
        self.python.chmod(0o755)
        self.write()

    def write(self, source=MODEL, **base):
        keys = {"device": "cpu", "data.sequence_length": 16, "batch.size_per_rank": 1, "train.steps": 2,
                "train.warmup_steps_excluded": 0, "model.source": source, **base}
        keys = {key: value for key, value in keys.items() if value is not None}
        self.experiment.write_text(
            f"experiment: trial\nbase: {json.dumps(keys)}\npoints:\n  - {{name: one}}\n")

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        return {**kept, "HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home), "HOME": str(self.folder),
                "XDG_CACHE_HOME": str(self.folder / "cache"), "FSDP_PYTHON": str(self.python), **more}

    def start(self, *arguments, prefix=(), **environment):
        return subprocess.Popen([*prefix, self.runner, *map(str, arguments)], cwd=self.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(**environment))

    def call(self, *arguments, prefix=(), status=0, **environment):
        """Runs fsdp-run, whose exit status must be `status`; any, if that is None."""
        process = self.start(*arguments, prefix=prefix, **environment)
        output, errors = process.communicate(timeout=LIMIT_S)
        assert status in (None, process.returncode), output + errors
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start_fetch(self, **environment):
        return self.start("fetch", self.experiment, **environment)

    def fetch(self, **environment):
        return self.call("fetch", self.experiment, **environment)

    def fetch_whole(self, paths, name=MODEL, **environment):
        """Fetches. Checks that the snapshot then has exactly these files."""
        ended = self.fetch(**environment)
        self.check_snapshot(paths, name)
        return ended

    def run(self, *arguments, **environment):
        return self.call(self.experiment, "--results", self.results, "--trainer", self.stub_trainer,
                         *arguments, **environment)

    # --- the cache ---

    @property
    def cache(self):
        return self.home / "hub"

    def repository(self, name=MODEL):
        kind, name = ("datasets", name[9:]) if name.startswith("datasets/") else ("models", name)
        return self.cache / f"{kind}--{name.replace('/', '--')}"

    def snapshot(self, name=MODEL):
        return self.repository(name) / "snapshots" / self.hub.repositories[name].commit

    def check_snapshot(self, paths, name=MODEL):
        """Checks that the snapshot has exactly these files, as relative links to the right
        contents."""
        folder = self.snapshot(name)
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
        assert found == set(paths)
        for path in paths:
            assert (folder / path).is_symlink()
            assert not os.path.isabs(os.readlink(folder / path))
            assert (folder / path).read_bytes() == self.hub.repositories[name].files[path]

    def check_nothing_wrong(self, name=MODEL):
        """Checks that every file in the cache has the right contents, except incomplete
        downloads."""
        repository = self.hub.repositories[name]
        hashes = {}
        for path, data in repository.files.items():
            entry = repository.entry(path)
            hashes[entry.get("lfs", entry)["oid"]] = data
        for blob in (self.repository(name) / "blobs").glob("*"):
            if not blob.name.endswith(".incomplete"):
                assert blob.read_bytes() == hashes[blob.name]
        for place in (self.repository(name) / "snapshots").rglob("*"):
            if not place.is_dir():
                assert place.read_bytes() == repository.files[str(place.relative_to(self.snapshot(name)))]
        for ref in (self.repository(name) / "refs").glob("*"):
            assert ref.read_text() == repository.commit

    def incomplete(self, name=MODEL):
        return sorted((self.repository(name) / "blobs").glob("*.incomplete"))


@pytest.fixture
def workplace(runner, stub_trainer, tmp_path, hub):
    return Workplace(tmp_path, hub, runner, stub_trainer)
