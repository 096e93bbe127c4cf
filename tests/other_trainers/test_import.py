"""`fsdp-run import` says of every key of another trainer's file what came of it.
tests/parity/test_imported.py compares the losses."""

import json
import re

import pytest
import yaml

AXOLOTL = """base_model: NousResearch/Llama-2-7b-hf
model_type: LlamaForCausalLM
adapter: qlora
load_in_4bit: true
lora_r: 32
lora_alpha: 16
lora_target_modules: [q_proj, v_proj]
lora_model_dir:
datasets:
  - path: mhenrichsen/alpaca_2k_test
    type: alpaca
  - path: second.jsonl
sample_packing: true
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 3.0
optimizer: adamw_bnb_8bit
lr_scheduler: cosine
learning_rate: 2e-4
warmup_ratio: 0.1
weight_decay: 0.01
bf16: auto
tf32: true
gradient_checkpointing: true
val_set_size: 0.05
wandb_project: my project
invented_key: 7
"""


@pytest.fixture
def translated(call, tmp_path):
    """Returns (base, strategies by point, comments) of the files' translation."""

    def run(files: dict[str, str] | str, *words: str):
        files = {"theirs.yml": files} if isinstance(files, str) else files
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        text = call("import", *files, *words).stdout
        (tmp_path / "mine.yaml").write_text(text)
        experiment = yaml.safe_load(text)
        points = {point["name"]: point for point in experiment["points"]}
        comments = re.sub(r"\n# +", " ", "\n" + text.split("\nexperiment:")[0])
        return experiment["base"], points, comments

    return run


def test_every_key_is_translated_or_named_with_its_line(translated):
    base, points, comments = translated(AXOLOTL)
    assert base == {
        "model.source": "NousResearch/Llama-2-7b-hf", "method": "qlora", "lora.rank": 32, "lora.alpha": 16,
        "lora.targets": ["q_proj", "v_proj"], "lora.dropout": 0, "data.kind": "instructions",
        "data.train": "hf://datasets/mhenrichsen/alpaca_2k_test/FILE", "data.sequence_length": 4096, "data.rows": "pack",
        "data.template.with_input": base["data.template.with_input"],
        "data.template.without_input": base["data.template.without_input"],
        "batch.size_per_rank": 2, "batch.gradient_accumulation_steps": 4, "precision": "bf16_mixed",
        "activation_checkpointing.every": 1, "optimizer.kind": "adamw", "optimizer.state_dtype": "int8",
        "optimizer.learning_rate": "2e-4", "optimizer.weight_decay": 0.01, "optimizer.no_decay": ["norm", "bias"],
        "optimizer.beta2": 0.999, "optimizer.gradient_clip_norm": 1, "schedule.kind": "cosine",
        "schedule.warmup_ratio": 0.1, "schedule.warmup_from_zero": True, "train.epochs": 3, "train.seed": 42,
        "evaluation.fraction": 0.05}
    assert points["as given"]["strategy"] == {"kind": "single", "ranks": 1}
    lost, _, rest = comments.partition("Translated, with a difference:")
    assert "line 12: datasets.1.path: second.jsonl" in lost and "line 28: invented_key: 7" in lost
    assert lost.count("line ") == 2
    assert "line 10: datasets.0.path" in rest
    for word in ("so already: load_in_4bit (line 4), tf32 (line 24)",
                 "irrelevant here: model_type (line 2), wandb_project (line 27)", "empty: lora_model_dir (line 8)"):
        assert word in rest


def test_alternatives_keep_the_total_batch_where_they_can(translated):
    _, points, _ = translated(AXOLOTL, "--ranks", "4")
    assert list(points) == ["as given", "FSDP", "FSDP batch 4", "offload"]
    assert points["as given"]["strategy"] == {"kind": "ddp", "ranks": 4}
    assert points["FSDP batch 4"]["batch.size_per_rank"] * points["FSDP batch 4"]["batch.gradient_accumulation_steps"] == 8
    assert points["offload"]["strategy"] == {"kind": "fsdp", "ranks": 4, "offload": "optimizer"}
    _, points, _ = translated(AXOLOTL.replace("adapter: qlora", "adapter: lora").replace("steps: 4", "steps: 3"))
    assert list(points) == ["as given", "batch 4", "offload", "QLoRA"]
    assert "batch.gradient_accumulation_steps" not in points["batch 4"]


@pytest.mark.parametrize("text, expected", [
    ("", {"precision": "bf16_true"}),
    ("bf16: false", {"precision": "fp32"}),
    ("max_grad_norm: 0", {"optimizer.gradient_clip_norm": None}),
    ("max_grad_norm: null", {}),
    ("bf16: full", {"precision": "bf16_true"}),
    ("warmup_steps: 0", {"schedule.warmup_steps": 0}),
    ("gradient_checkpointing: on", {"activation_checkpointing.every": 1}),
    ("adapter: lora", {"precision": "bf16_mixed", "method": "lora"}),
    ("bf16: true\nadapter: lora", {"precision": "bf16_mixed", "method": "lora"}),
    ("bf16: true\nfsdp: [full_shard, auto_wrap]", {"precision": "bf16_mixed"}),
    ("fp16: true", {"precision": "fp16_mixed"}),
    ("max_steps: 50\nnum_epochs: 2", {"train.steps": 50}),
    ("lr_scheduler: constant\nwarmup_steps: 10", {"schedule.kind": "constant", "schedule.warmup_steps": 0}),
    ("cosine_min_lr_ratio: 0.1", {"schedule.min_learning_rate": "0.1 * ${optimizer.learning_rate}"}),
    ("load_in_4bit: true\nadapter: lora", {"method": "lora", "precision": "bf16_mixed"}),
    ("lora_r: 8", {}),
    ("val_set_size: 0.0", {}),
    ("evals_per_epoch: 1", {}),
])
def test_keys_that_depend_on_others(translated, text, expected):
    base, _, _ = translated("base_model: a/b\n" + text)
    usual = translated("base_model: a/b\n")[0]
    changed = {key: value for key, value in base.items() if usual.get(key) != value}
    if "train.steps" in base:
        assert "train.epochs" not in base
    assert {key: value for key, value in changed.items() if not key.startswith(("lora.", "schedule.warmup_from"))} == {
        key: value for key, value in expected.items() if key not in usual or usual[key] != value}


def test_files_that_files_name_are_read(translated, tmp_path):
    (tmp_path / "configs").mkdir()
    zero3 = {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}, "bf16": {"enabled": True}}
    (tmp_path / "configs/zero3.json").write_text(json.dumps(zero3, indent="\t"))
    base, points, comments = translated("base_model: a/b\ndeepspeed: configs/zero3.json\nbf16: true\n")
    assert base["precision"] == "bf16_mixed"
    assert points["as given"]["strategy"] == {"kind": "fsdp", "ranks": 1, "sharding": "full_shard",
                                              "offload": "parameters"}
    _, _, comments = translated("base_model: a/b\ndeepspeed: configs/zero4.json\n")
    assert "line 2: deepspeed: configs/zero4.json; there is no such file; give it as another FILE" in comments


def test_the_launch_line_counts_last(translated):
    accelerate = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n"
    base, points, comments = translated(
        {"sft.yaml": "model_name_or_path: a/b\nlearning_rate: 1e-5\n", "ddp.yaml": accelerate}, "--launch",
        "accelerate launch --config_file ddp.yaml --num_processes=8 sft.py --learning-rate 3e-5 --unknown-option 3")
    assert points["as given"]["strategy"] == {"kind": "ddp", "offload": "none", "ranks": 8}
    assert "ddp.yaml:3: num_processes: 2; replaced by num_processes" in comments
    assert base["optimizer.learning_rate"] == "3e-5"
    assert "--launch: unknown_option: 3" in comments


@pytest.mark.parametrize("line, strategy", [
    ("accelerate launch --use_fsdp train.py", {"kind": "fsdp", "ranks": 1}),
    ("mpirun -x NCCL_DEBUG=INFO -np 8 python -u train.py", {"kind": "ddp", "ranks": 8}),
    ("accelerate launch --num_processes '4' --fsdp \"full_shard auto_wrap\" train.py",
     {"kind": "fsdp", "sharding": "full_shard", "ranks": 4}),
])
def test_words_of_the_launch_line(translated, line, strategy):
    _, points, comments = translated("model_name_or_path: a/b\n", "--launch", line)
    assert points["as given"]["strategy"] == strategy
    assert "Not translated" not in comments


def test_short_options_and_signs_of_the_launch_line(translated):
    base, _, comments = translated("model_name_or_path: a/b\nnum_train_epochs: 2\n", "--launch",
                                   "srun -N 2 python t.py --max_steps -1 --use_dora '-1'")
    assert base["train.epochs"] == 2 and "train.steps" not in base
    assert "--launch: N: 2" in comments and "--launch: use_dora: -1" in comments


def test_an_open_quote_is_refused(call, tmp_path):
    (tmp_path / "theirs.yml").write_text("base_model: a/b\n")
    done = call("import", "theirs.yml", "--launch", "python 't.py", fails_with=2)
    assert "--launch: has a quote that does not end; close it" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("words", [("--ranks", "4"), ("--launch", "accelerate launch --num_processes 4 t.py")])
def test_accelerate_without_distribution_is_ddp_on_several_ranks(translated, words):
    text = "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"
    assert translated(text)[1]["as given"]["strategy"] == {"kind": "single", "ranks": 1}
    _, points, comments = translated(text, *words)
    assert points["as given"]["strategy"] == {"kind": "ddp", "ranks": 4}
    assert "distributed_type: NO; on several ranks it is DDP" in comments


def test_null_is_no_clipping_where_the_trainer_takes_it_so(translated):
    base, _, comments = translated("model_name_or_path: a/b\nmax_grad_norm: null\nseed: null\n")
    assert base["optimizer.gradient_clip_norm"] is None and base["train.seed"] == 42
    assert "empty: seed (line 3)" in comments


def test_a_value_without_counterpart_gets_no_default(translated):
    text = "model_name_or_path: a/b\nfinetuning_type: freeze\n"
    base, _, comments = translated(text)
    assert not [key for key in base if key == "method" or key.startswith("lora")]
    assert "line 2: finetuning_type: freeze; this value has no counterpart here" in comments
    assert translated(text.replace("freeze", "lora\nquantization_bit: 8"))[0]["method"] == "lora"


def test_values_that_our_keys_may_not_have_are_named(translated):
    base, _, comments = translated("base_model: a/b\nnum_epochs: 0.5\nlearning_rate: ${rate}\nlora_r: many\n"
                                   "adapter: lora\nseed: [1, 2]\n")
    assert base["train.epochs"] == 1 and base["lora.rank"] == 16  # the defaults
    for part in ("line 2: num_epochs: 0.5; 'train.epochs' cannot be 0.5", "line 3: learning_rate: ${rate}",
                 "line 4: lora_r: many; 'lora.rank' cannot be many", "line 6: seed: [1, 2]"):
        assert part in comments


@pytest.mark.parametrize("text, strategy", [
    ("fsdp: full_shard offload auto_wrap", {"kind": "fsdp", "sharding": "full_shard", "offload": "parameters"}),
    ("fsdp: offload shard_grad_op", {"kind": "fsdp", "sharding": "shard_grad_op", "offload": "parameters"}),
    ("fsdp: [shard_grad_op, auto_wrap]", {"kind": "fsdp", "sharding": "shard_grad_op"}),
    ("fsdp_config: {fsdp_reshard_after_forward: true, fsdp_sharding_strategy: SHARD_GRAD_OP}",
     {"kind": "fsdp", "sharding": "shard_grad_op"}),
])
def test_strategies(translated, text, strategy):
    _, points, comments = translated(f"base_model: a/b\n{text}\n", "--ranks", "2")
    assert points["as given"]["strategy"] == {**strategy, "ranks": 2}
    assert "ranks from --ranks" in comments


@pytest.mark.parametrize("line, ranks, nodes", [
    ("torchrun --nproc_per_node 4 --nnodes 2 t.py", 8, 2), ("deepspeed --num_gpus=4 t.py", 4, None),
    ("accelerate launch --num_processes 8 --num_machines 2 t.py", 8, 2),
    ("CUDA_VISIBLE_DEVICES=0,1 python t.py --lora_r 3", 2, None),
])
def test_launchers_count_ranks_in_all_or_of_a_node(translated, line, ranks, nodes):
    base, points, _ = translated("model_name_or_path: a/b\nuse_peft: yes\n", "--launch", line)
    assert points["as given"]["strategy"]["ranks"] == ranks and base.get("slurm.nodes") == nodes
    assert base["method"] == "lora" and base["lora.rank"] == (3 if "lora_r" in line else 16)


def test_torchtune_shards_on_several_gpus(translated):
    text = "model: {_component_: torchtune.models.llama2.llama2_7b}\n"
    assert translated(text)[1]["as given"]["strategy"]["kind"] == "single"
    assert translated(text, "--ranks", "12")[1]["as given"]["strategy"]["kind"] == "fsdp"


def test_lora_of_all_weights_includes_named_ones(translated):
    base, _, comments = translated("base_model: a/b\nadapter: lora\nlora_target_modules: [q_proj]\n"
                                   "lora_target_linear: true\n")
    assert base["lora.targets"] == "all-linear"
    assert "line 3: lora_target_modules: [q_proj]; replaced by lora_target_linear" in comments


@pytest.mark.parametrize("value", ["q_proj]\ndata.train: /etc/passwd #[", "q]\n]: [", "${x}", "a: b", "- a"])
def test_a_value_adds_no_key(translated, value):
    base, _, _ = translated({"lora.json": json.dumps({"model_name_or_path": value, "finetuning_type": "lora",
                                                      "lora_target": value, "seed": value})})
    assert base["data.train"] == "FILE" and base["train.seed"] == 42 and "evaluation.data" not in base


@pytest.mark.parametrize("name", ["null", "-", "x\nbase: {a: 1}", "1.5"])
def test_a_name_stays_a_name(translated, tmp_path, name):
    translated("base_model: a/b\n", "--name", name)
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["experiment"] == name


@pytest.mark.parametrize("text, problem", [
    ("a: [1, 2", "theirs.yml:1:1: is neither YAML nor JSON"),
    ("- base_model: a\n", "theirs.yml: is no map of keys and values"),
    ("lr: 3\n", "is of no trainer that is known here"),
    ("", "is no map of keys and values"),
    ("---\nbase_model: a\n", None),
    ("base_model: a\n---\nbase_model: b\n", "theirs.yml: has several documents with --- between them; allowed: one"),
    ("base_model: a\nbase_model: b\n", None),
    ("base_model: \"a\\nexperiment: evil\"\nx: \"\\u202e\\e[2J\"\n", None),
    ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{next_}: &{next_} [*{name},*{name},*{name},*{name},*{name},*{name},*{name},*{name}]\n"
        for name, next_ in zip("abcdefgh", "bcdefghi")) + "base_model: b\n", "has more than 10000 keys"),
    ("a: &a [*a]\nbase_model: b\n", "or too deep ones"),
    ("base_model: " + "[" * 5000, "is neither YAML nor JSON"),
    ("base_model: b\n? [1, 2]\n: 3\n? {a: b}\n: 4\n", None),
])
def test_odd_files_give_a_message_or_an_experiment(call, tmp_path, text, problem):
    (tmp_path / "theirs.yml").write_text(text)
    done = call("import", "theirs.yml", fails_with=2 if problem else 0)
    if problem:
        assert problem in done.stderr and done.stdout == ""
    else:
        assert yaml.safe_load(done.stdout)["experiment"] == "theirs"
        assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_characters_of_json_keep_their_lines(translated):
    text = '{\n"model_name_or_path": "a",\n"x": "\\ud83d\\ude00 \\\\ud83d\\u00e9",\n"seed": 3,\n"tokenizer_name": "[a"}'
    base, _, comments = translated({"args.json": text})
    assert "line 3: x: 😀 \\ud83dé" in comments and base["train.seed"] == 3 and base["data.tokenizer"] == "[a"


def test_a_missing_file_is_refused(call):
    assert "absent.yml" in call("import", "absent.yml", fails_with=2).stderr


def test_peft_and_torchtune_files(translated):
    base, _, _ = translated({"adapter_config.json": json.dumps({
        "peft_type": "LORA", "r": 7, "lora_alpha": 14, "target_modules": ["q_proj"], "use_dora": False, "bias": "none",
        "base_model_name_or_path": "a/b"})})
    assert {key: base[key] for key in ("method", "lora.rank", "lora.alpha", "lora.targets")} == {
        "method": "lora", "lora.rank": 7, "lora.alpha": 14, "lora.targets": ["q_proj"]}
    base, _, _ = translated("model: {_component_: torchtune.models.llama3.qlora_llama3_8b, lora_attn_modules: "
                            "['q_proj', 'output_proj']}\noptimizer_in_bwd: True\ndtype: bf16\nseed: null\n")
    assert base["lora.targets"] == ["q_proj", "o_proj"] and base["method"] == "qlora"
    assert base["optimizer.in_backward"] is True and base["precision"] == "bf16_true"


def test_a_plan_reads_the_translation(call, translated, trainer, tmp_path):
    translated(AXOLOTL)
    (tmp_path / "results/prepared").mkdir(parents=True)
    sets = ["--set", "model.source=null", "--set", "model.config=llama2-7b", "--set", "data.tokenizer=none"]
    done = call("plan", "mine.yaml", "--gpu", "rtx4090", "--trainer", trainer, *sets, "--format", "json")
    rows = json.loads(done.stdout)
    assert [row["point"] for row in rows] == ["as given", "batch 4", "offload"]
    assert all(row["fit"] in ("fits", "tight") for row in rows)
    told = call("check", "mine.yaml", *sets, fails_with=2).stderr
    assert "write the name of a file in place of FILE; fsdp-run fetch names them" in " ".join(told.split())


DATASET_INFO = {"chats": {"file_name": "chats.json", "formatting": "sharegpt", "columns": {"messages": "turns"},
                          "tags": {"role_tag": "who", "content_tag": "says", "user_tag": "human"}},
                "alpaca": {"file_name": "alpaca.json", "columns": {"prompt": "question", "response": "answer"}},
                "hub": {"hf_hub_url": "someone/data"}}
LLAMA_FACTORY = "model_name_or_path: some/model\nstage: sft\nfinetuning_type: lora\ncutoff_len: 512\n"


@pytest.mark.parametrize("folder", [None, "sets"])
@pytest.mark.parametrize("name, expected", [
    ("chats", {"data.kind": "messages", "data.train": "chats.json", "data.columns.messages": "turns",
               "data.columns.role": "who", "data.columns.content": "says"}),
    ("alpaca", {"data.kind": "instructions", "data.train": "alpaca.json", "data.columns.instruction": "question",
                "data.columns.output": "answer"}),
])
def test_the_entry_of_dataset_info_is_read(translated, tmp_path, folder, name, expected):
    place = tmp_path / (folder or "data")
    place.mkdir()
    (place / "dataset_info.json").write_text(json.dumps(DATASET_INFO))
    (place / expected["data.train"]).write_text("[]")
    given = f"dataset: {name}\nmax_samples: 1000\n" + (f"dataset_dir: {folder}\n" if folder else "")
    base, _, comments = translated(LLAMA_FACTORY + given)
    found = {key: value for key, value in base.items() if key.startswith("data.")}
    assert found == expected | {"data.train": f"{place.name}/{expected['data.train']}", "data.max_documents": 1000,
                                "data.sequence_length": 512, "data.rows": "pad_to_longest"}
    assert "Not translated" not in comments


@pytest.mark.parametrize("name, expected", [
    ("c4_demo", {"data.kind": "text", "data.train": "data/c4_demo.jsonl", "data.columns.text": "text"}),
    ("alpaca", {"data.kind": "text", "data.train": "data/alpaca.json", "data.columns.text": "question"}),
    ("plain", {"data.kind": "text", "data.train": "data/plain.json", "data.columns.text": "instruction"}),
    ("chats", {"data.kind": "messages"}),
])
def test_pre_training_reads_text(translated, tmp_path, name, expected):
    (tmp_path / "data").mkdir()
    info = DATASET_INFO | {"c4_demo": {"file_name": "c4_demo.jsonl", "columns": {"prompt": "text"}},
                           "plain": {"file_name": "plain.json", "formatting": "alpaca", "columns": {"query": "more"}}}
    (tmp_path / "data/dataset_info.json").write_text(json.dumps(info))
    (tmp_path / "data/text").write_text("a file with the name of a column")
    base, _, comments = translated(LLAMA_FACTORY.replace("sft", "pt") + f"dataset: {name}\n")
    found = {key: value for key, value in base.items() if key.startswith(("data.kind", "data.train", "data.columns"))}
    assert found.items() >= expected.items() and ("data.columns.text" in found) == (name != "chats")
    assert "data.columns.instruction" not in found and "data.columns.output" not in found
    assert ("stage: pt; replaced by formatting" in comments) == (name == "chats")
    assert ("columns.query: more; it is joined to the text there" in comments) == (name == "plain")


@pytest.mark.parametrize("name, why", [("chats, alpaca", "has no entry of this name (several data sets"),
                                       ("hub", "write the file of this data set in place of FILE")])
def test_a_data_set_that_is_no_single_file_is_named(translated, tmp_path, name, why):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/dataset_info.json").write_text(json.dumps(DATASET_INFO))
    base, _, comments = translated(LLAMA_FACTORY + f"dataset: {name}\n")
    assert base["data.train"] == "FILE" and why in comments
    assert "there is no none/dataset_info.json" in translated(LLAMA_FACTORY + "dataset_dir: none\ndataset: x\n")[2]
