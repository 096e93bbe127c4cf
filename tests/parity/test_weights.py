"""Weights of torch.save train like weights of safetensors, to the last digit."""

import json
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
import torch
from checkpoints import copy_with_changed_tensor
from test_against_transformers import Case
from trainer import events_file, log_file, start, train, wait_for

STEPS = 3


def write_torch_model(checkpoint: Path, folder: Path, files: int, dtype=None) -> Path:
    """Writes a model like transformers 4 with safe_serialization=False: weights in
    pytorch_model.bin, or in several files with an index. Returns `folder`."""
    folder.mkdir()
    (folder / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    tensors = {}
    for file in checkpoint.glob("*.safetensors"):
        tensors |= safetensors.torch.load_file(file)
    if dtype is not None:
        tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if "lm_head.weight" not in tensors:  # in transformers 4, tied tensors shared a storage
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    if files == 1:
        torch.save(tensors, folder / "pytorch_model.bin")
        return folder
    weight_map = {}
    for number in range(files):
        name = f"pytorch_model-{number + 1:05}-of-{files:05}.bin"
        shard = {key: tensors[key] for key in list(tensors)[number::files]}
        weight_map |= dict.fromkeys(shard, name)
        torch.save(shard, folder / name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return folder


@pytest.fixture(scope="module")
def losses_of(trainer, tokens, tmp_path_factory):
    """(model, case) -> losses of some steps. Each is trained once."""
    keys = {"train": {"steps": STEPS, "seed": 1}}
    return cache(lambda model, case: train(
        trainer, case.spec(model, tokens, **keys), tmp_path_factory.mktemp("run") / "run").losses())


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("case", [Case("single"), Case("fsdp", ranks=3)], ids=str)
@pytest.mark.parametrize("variant", ["plain", "tied", "several_files"])
def test_torch_weights(losses_of, variant, case, files, checkpoints, tmp_path):
    folder = write_torch_model(checkpoints[variant], tmp_path / "model", files)
    assert losses_of(folder, case) == losses_of(checkpoints[variant], case)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_torch_weights_of_dtype(losses_of, dtype, checkpoints, tmp_path):
    torch_folder = write_torch_model(checkpoints["plain"], tmp_path / "torch", 1, dtype)
    tensors = torch.load(torch_folder / "pytorch_model.bin")
    folder = tmp_path / "safetensors"
    folder.mkdir()
    (folder / "config.json").write_bytes((torch_folder / "config.json").read_bytes())
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    case = Case("fsdp", ranks=2)
    assert losses_of(torch_folder, case) == losses_of(folder, case)


def test_parameters_and_views_of_one_storage(losses_of, checkpoints, tmp_path):
    """The file is like a state dict of a module whose parameters are parts of one tensor."""
    tensors = safetensors.torch.load_file(checkpoints["plain"] / "model.safetensors")
    flat = torch.cat([tensor.flatten() for tensor in tensors.values()])
    parts = flat.split([tensor.numel() for tensor in tensors.values()])
    saved = {name: torch.nn.Parameter(part.view(tensor.shape))
             for (name, tensor), part in zip(tensors.items(), parts)}
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_bytes((checkpoints["plain"] / "config.json").read_bytes())
    torch.save(saved, folder / "pytorch_model.bin")
    assert losses_of(folder, Case("single")) == losses_of(checkpoints["plain"], Case("single"))


@pytest.mark.parametrize("rank", [0, 2])
def test_weights_that_are_not_finite_end_the_start(trainer, rank, checkpoints, tokens, tmp_path):
    """The start ends for every rank that reads them."""

    def spoil(norm: torch.Tensor) -> None:
        norm[-1 if rank else 0] = float("nan")

    tensor = "lm_head.weight"
    folder = copy_with_changed_tensor(checkpoints["plain"], tmp_path / "model", tensor, spoil)
    run = tmp_path / "run"
    assert wait_for(start(trainer, Case("fsdp", ranks=3).spec(folder, tokens), run))[rank] == 2
    assert f"tensor '{tensor}' is nan at [{96 if rank else 0}, 0]" in log_file(run, rank).read_text()
    assert all('"kind":"step"' not in events_file(run, other).read_text() for other in range(3))
