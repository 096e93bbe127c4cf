"""What a message says to do works: each test makes a mistake, reads the message, and does what it says."""

import re

import numpy
import pytest
import safetensors.torch
import torch
from peft_reference import Adapters, load_model, peft, write_adapter
from test_against_transformers import Case
from trainer import log_file, start, train, wait_for
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

ADAPTERS = Adapters(rank=4)


@pytest.fixture
def spec(checkpoints, tokens):
    return lambda **keys: Case("single").spec(checkpoints["grouped_query"], tokens, train={"steps": 1, "seed": 1}, **keys)


@pytest.fixture
def refusal(trainer, tmp_path):
    def read(spec: dict) -> str:
        assert wait_for(start(trainer, spec, tmp_path / "refused")) == [2]
        return log_file(tmp_path / "refused", 0).read_text()

    return read


def with_source(spec: dict, folder) -> dict:
    return {key: value for key, value in spec.items() if key not in ("method", "lora")} | {"model": {"source": str(folder)}}


def test_adapters_that_torch_saved_were_to_be_saved_again(trainer, spec, checkpoints, tmp_path):
    folder = write_adapter(load_model(checkpoints["grouped_query"]), ADAPTERS, tmp_path / "adapter")
    losses = train(trainer, spec(**ADAPTERS.keys(folder)), tmp_path / "safetensors").losses()
    # As PEFT's save_pretrained(safe_serialization=False).
    torch.save(safetensors.torch.load_file(folder / "adapter_model.safetensors"), folder / "adapter_model.bin")
    (folder / "adapter_model.safetensors").unlink()
    assert train(trainer, spec(**ADAPTERS.keys(folder)), tmp_path / "torch").losses() == losses


def test_modules_to_save_are_no_targets(trainer, spec, refusal, checkpoints, tmp_path):
    settings = peft.LoraConfig(r=4, lora_alpha=16.0, target_modules=ADAPTERS.names(), modules_to_save=["lm_head"])
    model = peft.get_peft_model(load_model(checkpoints["grouped_query"]), settings)
    model.save_pretrained(tmp_path / "adapter")
    with_adapter = spec(**ADAPTERS.keys(tmp_path / "adapter"))
    said = refusal(with_adapter)
    assert "modules_to_save" in said and "give the targets" not in said, said
    assert "merge_and_unload, then save_pretrained" in said and "model.source" in said, said
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    train(trainer, with_source(with_adapter, tmp_path / "merged"), tmp_path / "run")


def test_weights_of_another_quantization_are_dequantized(trainer, spec, refusal, checkpoints, tmp_path):
    of_nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")  # without double quantization
    AutoModelForCausalLM.from_pretrained(checkpoints["grouped_query"], quantization_config=of_nf4).save_pretrained(
        tmp_path / "quantized")
    said = refusal(with_source(spec(), tmp_path / "quantized"))
    call = re.search(r"model\.save_pretrained\(FOLDER, (.*?)\)", " ".join(said.split()))
    assert call and "model.dequantize()" in said, said
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "quantized").dequantize()
    model.save_pretrained(tmp_path / "dequantized", **eval(f"dict({call[1]})"))
    train(trainer, with_source(spec(), tmp_path / "dequantized"), tmp_path / "run")


@pytest.mark.parametrize("keys", [{}, {"method": "lora", "lora": {"rank": 4}}], ids=["full", "lora"])
def test_the_weights_of_a_checkpoint_are_trained_on_other_data(trainer, spec, refusal, tokens, keys, tmp_path):
    first = spec(checkpoint={"at_end": True}, **keys)
    train(trainer, first, tmp_path / "first")
    checkpoint = tmp_path / "first/checkpoints/step-1"
    numpy.save(tmp_path / "other.npy", numpy.load(tokens)[::-1].copy())
    other = first | {"data": first["data"] | {"train": str(tmp_path / "other.npy")}, "train": {"steps": 2, "seed": 1}}
    said = refusal(other | {"resume": str(checkpoint)})
    section, key = re.search(r"leave resume out, and give this folder as (\w+)\.(\w+)", " ".join(said.split())).groups()
    train(trainer, other | {section: other.get(section, {}) | {key: str(checkpoint)}}, tmp_path / "second")
