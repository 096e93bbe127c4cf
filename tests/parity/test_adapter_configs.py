"""Of every setting of PEFT: a folder with another value than the default computes what PEFT computes
with it, or is refused."""

import dataclasses
import json
import shutil

import numpy
import pytest
import torch
from checkpoints import TOTAL_BATCH
from peft_reference import Adapters, load_adapter, load_model, peft, write_adapter
from test_against_transformers import Case
from trainer import log_file, of_kind, read_events, start, wait_for

ADAPTERS = Adapters(targets=("q_proj", "v_proj"))
READ = {  # values that may be read. The run's own lora.dropout counts, and PEFT has none in evaluations.
    "task_type": "CAUSAL_LM", "auto_mapping": {"base_model_class": "LlamaForCausalLM"}, "peft_version": "0.9.0",
    "base_model_name_or_path": "another/model", "revision": "main", "inference_mode": True, "lora_dropout": 0.5,
    "init_lora_weights": "gaussian", "loftq_config": {"loftq_bits": 4}, "eva_config": {"rho": 2.0},
    "corda_config": {"cache_file": None}, "lora_ga_config": {"stable_gamma": 16}, "qalora_group_size": 32,
    "megatron_core": "another.core", "runtime_config": {"ephemeral_gpu_offload": True},
}
REFUSED = {
    "peft_type": "ADALORA", "r": 4, "lora_alpha": 5, "use_rslora": True, "bias": "all", "target_modules": ["q_proj"],
    "exclude_modules": ["v_proj"], "fan_in_fan_out": True, "modules_to_save": ["lm_head"], "layers_to_transform": [0],
    "layers_pattern": "layers", "rank_pattern": {"q_proj": 4}, "alpha_pattern": {"q_proj": 5},
    "megatron_config": {"a": 1}, "trainable_token_indices": [1], "use_dora": True, "velora_config": {"a": 1},
    "alora_invocation_tokens": [1], "use_qalora": True, "monteclora_config": {"num_samples": 4},
    "layer_replication": [[0, 1], [0, 1]], "lora_bias": True, "target_parameters": ["q_proj.weight"],
    "use_bdlora": {"a": 1}, "arrow_config": {"top_k": 1}, "kasa_config": {"beta": 1}, "ensure_weight_tying": True,
}


@pytest.fixture(scope="module")
def plain(checkpoints, tmp_path_factory):
    return write_adapter(load_model(checkpoints["plain"]), ADAPTERS, tmp_path_factory.mktemp("adapter"))


def first_loss_of_peft(checkpoint, folder, tokens) -> float:
    rows = torch.from_numpy(numpy.load(tokens)[:TOTAL_BATCH].astype(numpy.int64))
    with torch.no_grad():
        logits = load_adapter(checkpoint, folder).eval()(input_ids=rows[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(peft.LoraConfig)])
def test_each_setting_counts_or_is_refused(trainer, name, plain, checkpoints, tokens, tmp_path):
    assert (name in READ) != (name in REFUSED), f"PEFT has a new setting {name}: add a value of it"
    folder = shutil.copytree(plain, tmp_path / "adapter")
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {name: (READ | REFUSED)[name]}))
    spec = Case("single").spec(checkpoints["plain"], tokens, **ADAPTERS.keys(folder))
    spec["train"]["steps"] = 1
    [process] = start(trainer, spec, tmp_path / "run")
    wait_for([process])
    said = log_file(tmp_path / "run", 0).read_text()
    if name in REFUSED:
        assert process.returncode == 2 and f"has {name} " in said, said
        return
    assert process.returncode == 0, said
    [step] = of_kind("step", read_events(tmp_path / "run"))
    assert step["loss"] == pytest.approx(first_loss_of_peft(checkpoints["plain"], folder, tokens), abs=1e-5)
