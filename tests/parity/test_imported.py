"""A translated configuration of another trainer computes the losses and the learning rates that
transformers' Trainer, or PEFT with it, computes for the settings that it means."""

import json
from dataclasses import dataclass, field

import numpy
import peft_reference
import pytest
import torch
from agreement import assert_close
from checkpoints import SEQUENCE_LENGTH
from peft_reference import Adapters
from test_against_transformers import TOLERANCE
from torch.utils.data import SequentialSampler
from transformers import (AutoModelForCausalLM, Trainer, TrainingArguments, default_data_collator,
                          get_cosine_schedule_with_warmup)

STEPS = 3


@dataclass(frozen=True)
class Case:
    files: dict[str, str]  # name -> text
    means: dict  # TrainingArguments
    adapters: Adapters | None = None
    words: tuple[str, ...] = ()  # of the command
    ranks: int = 1
    torch_optimizer: dict = field(default_factory=dict)  # of trainers that are not built on Trainer


TRANSFORMERS = {"per_device_train_batch_size": 8, "max_grad_norm": 1.0}
AXOLOTL = """
base_model: a/b
micro_batch_size: 4
gradient_accumulation_steps: 3
num_epochs: 1
bf16: false
learning_rate: 2e-3
sequence_len: 13
"""
LLAMA_FACTORY = """
model_name_or_path: a/b
stage: sft
do_train: true
per_device_train_batch_size: 6
gradient_accumulation_steps: 2
learning_rate: 1.0e-3
"""
TORCHTUNE = """
checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer, checkpoint_dir: /tmp/x}
tokenizer: {_component_: torchtune.models.llama2.llama2_tokenizer}
batch_size: 12
gradient_accumulation_steps: 1
epochs: 1
device: cpu
dtype: fp32
optimizer: {_component_: torch.optim.AdamW, lr: 2e-3, fused: True}
"""
SFT = """
model_name_or_path: a/b
per_device_train_batch_size: 6
gradient_accumulation_steps: 2
learning_rate: 0.002
lr_scheduler_type: constant
"""
CASES = {
    "linear": Case({"args.json": json.dumps({"per_device_train_batch_size": 8, "learning_rate": 0.002,
                                             "weight_decay": 0.3, "warmup_steps": 2, "max_grad_norm": 0.05})},
                   {"per_device_train_batch_size": 8, "learning_rate": 0.002, "weight_decay": 0.3,
                    "warmup_steps": 2, "max_grad_norm": 0.05}),
    "cosine": Case({"args.json": json.dumps({"per_device_train_batch_size": 4, "learning_rate": 0.001, "adam_beta1": 0.8,
                                             "adam_beta2": 0.9, "adam_epsilon": 1e-6, "lr_scheduler_type": "cosine",
                                             "warmup_ratio": 0.3})},
                   {"per_device_train_batch_size": 4, "learning_rate": 0.001, "adam_beta1": 0.8, "adam_beta2": 0.9,
                    "adam_epsilon": 1e-6, "lr_scheduler_type": "cosine", "warmup_steps": 1}),
    "sft": Case({"sft.yaml": SFT.replace("constant", "constant_with_warmup") + "warmup_steps: 1\nuse_peft: false\n"
                                                                               "lora_r: 3\n"},
                {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 2, "learning_rate": 0.002,
                 "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1}),
    "axolotl": Case({"full.yml": AXOLOTL + "weight_decay: 0.1\nwarmup_steps: 1\n"},
                    {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "learning_rate": 0.002,
                     "weight_decay": 0.1, "lr_scheduler_type": "cosine", "warmup_steps": 1}),
    "axolotl-lora": Case({"lora.yml": AXOLOTL + "adapter: lora\nlora_r: 4\nlora_alpha: 8\nlora_dropout: 0.0\n"
                                                "lora_target_linear: true\nlr_scheduler: constant\n"},
                         {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "learning_rate": 0.002,
                          "lr_scheduler_type": "constant"}, Adapters(rank=4, alpha=8.0)),
    "llamafactory": Case({"full.yaml": LLAMA_FACTORY + "finetuning_type: full\nwarmup_ratio: 0.5\n"
                                                       "lr_scheduler_type: cosine\n"},
                         {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 2, "learning_rate": 0.001,
                          "lr_scheduler_type": "cosine", "warmup_steps": 2}),
    "llamafactory-lora": Case({"lora.yaml": LLAMA_FACTORY + "lora_rank: 5\nlora_target: q_proj,v_proj\n"},
                              {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 2,
                               "learning_rate": 0.001},
                              Adapters(rank=5, alpha=10.0, targets=("q_proj", "v_proj"))),
    "torchtune": Case({"full.yaml": TORCHTUNE + "model: {_component_: torchtune.models.llama2.llama2_7b}\n"
                       "lr_scheduler: {_component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup,"
                       " num_warmup_steps: 1}\n"},
                      {"per_device_train_batch_size": 12, "max_grad_norm": 0.0},
                      torch_optimizer={"lr": 2e-3, "weight_decay": 0.01}),
    "torchtune-lora": Case({"lora.yaml": TORCHTUNE + "model: {_component_: torchtune.models.llama2.lora_llama2_7b, "
                            "lora_attn_modules: ['q_proj', 'output_proj'], lora_rank: 3, lora_alpha: 6}\n"
                            "lr_scheduler: {_component_: torchtune.training.lr_schedulers."
                            "get_cosine_schedule_with_warmup, num_warmup_steps: 1}\n"},
                           {"per_device_train_batch_size": 12, "max_grad_norm": 0.0},
                           Adapters(rank=3, alpha=6.0, targets=("q_proj", "o_proj")),
                           torch_optimizer={"lr": 2e-3, "weight_decay": 0.01}),
    "deepspeed": Case({"sft.yaml": SFT + "deepspeed: zero2.json\n",
                       "zero2.json": json.dumps({"zero_optimization": {"stage": 2}, "gradient_clipping": 0.05,
                                                 "optimizer": {"type": "AdamW", "params": {
                                                     "lr": "auto", "betas": [0.7, 0.95], "eps": 1e-7}}})},
                      {"per_device_train_batch_size": 12, "gradient_accumulation_steps": 2, "learning_rate": 0.002,
                       "lr_scheduler_type": "constant", "max_grad_norm": 0.05, "adam_beta1": 0.7, "adam_beta2": 0.95,
                       "adam_epsilon": 1e-7}, words=("--launch", "deepspeed --num_gpus=2 train.py"), ranks=2),
    "accelerate": Case({"sft.yaml": SFT, "fsdp.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"
                        "num_processes: 2\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n"},
                       {"per_device_train_batch_size": 12, "gradient_accumulation_steps": 2, "learning_rate": 0.002,
                        "lr_scheduler_type": "constant"}, ranks=2),
}


class InOrder(Trainer):
    """Trains on rows in their order, and keeps the losses and rates of its steps."""

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.losses, self.rates = [], []

    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)

    def training_step(self, *words):
        loss = super().training_step(*words)
        if len(self.rates) == self.state.global_step:  # the first micro-batch of a step
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            self.losses.append(0.0)
        self.losses[-1] += loss.item()
        return loss


def expected(case, checkpoint, adapter, tokens, folder):
    model = (peft_reference.load_adapter(checkpoint, adapter, is_trainable=True) if adapter
             else AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32))
    rows = [{"input_ids": row, "labels": row} for row in numpy.load(tokens).astype(numpy.int64)]
    optimizers = (None, None)
    if case.torch_optimizer:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, **case.torch_optimizer)
        optimizers = optimizer, get_cosine_schedule_with_warmup(optimizer, 1, STEPS)
    arguments = TrainingArguments(str(folder), max_steps=STEPS, use_cpu=True, report_to="none", save_strategy="no",
                                  disable_tqdm=True, optim="adamw_torch", **case.means)
    reference = InOrder(model, arguments, default_data_collator, train_dataset=rows, optimizers=optimizers)
    reference.train()
    return reference.losses, reference.rates


@pytest.mark.parametrize("name", CASES)
def test_a_translated_configuration_trains_alike(name, call, trainer, checkpoints, tokens, tmp_path):
    case, checkpoint = CASES[name], checkpoints["plain"]
    for file, text in case.files.items():
        (tmp_path / file).write_text(text)
    named = [file for file in case.files if file != "zero2.json"]  # sft.yaml names it
    (tmp_path / "mine.yaml").write_text(call("import", *named, *case.words).stdout)
    keys = {"model.source": checkpoint, "data.kind": "tokens", "data.train": tokens, "data.rows": "pad",
            "data.sequence_length": SEQUENCE_LENGTH, "data.shuffle": "false", "train.steps": STEPS,
            "train.warmup_steps_excluded": 0, "device": "cpu", "threads_per_rank": 1}
    adapter = None
    if case.adapters:
        adapter = peft_reference.write_adapter(peft_reference.load_model(checkpoint), case.adapters, tmp_path / "adapter")
        keys["lora.adapter"] = adapter
    sets = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    call("mine.yaml", "--only", "as given", "--trainer", trainer, *sets)
    [log] = tmp_path.glob("results/runs/*/*/attempt-1/events.rank0.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [event for event in events if event["kind"] == "step"]
    assert [event["world_size"] for event in events if event["kind"] == "run_started"] == [case.ranks]
    losses, rates = expected(case, checkpoint, adapter, tokens, tmp_path / "reference")
    # The first rate of a warm-up is 0.
    assert [step["learning_rate"] for step in steps] == pytest.approx(rates, rel=1e-6, abs=0)
    assert_close("loss", losses, [step["loss"] for step in steps], TOLERANCE)
