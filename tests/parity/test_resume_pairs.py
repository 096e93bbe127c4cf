"""A run that resumes from a checkpoint of another specification goes on with the losses of the whole
run, or refuses the checkpoint before its first step. The checkpoints are of killed runs."""

import random
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest
from agreement import assert_close
from checkpoints import SEQUENCE_LENGTH, VOCABULARY_SIZE, copy_with_changed_tensor, copy_without_last_layer
from test_encoder_decoder import TOKENIZER, write_articles, write_model
from trainer import events_file, log_file, of_kind, read_events, start, train, wait_for
from waiting import wait_until

TOLERANCE = 1e-5
STEPS = 6
TOTAL = 12  # sequences: any of RANKS have them in micro-batches of 1 and 2
RANKS = [("single", 1), ("ddp", 2), ("ddp", 3), ("fsdp", 2), ("fsdp", 3)]
READERS = 6
WRITERS = [*range(6), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(6, 50))]
RANDOM_MODEL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
                "num_key_value_heads": 2, "vocab_size": VOCABULARY_SIZE, "initializer_range": 0.1}
NAMES = {  # of the weights that a word of lora.targets stands for
    "llama": {"attention": ["q_proj", "k_proj", "v_proj", "o_proj"], "mlp": ["gate_proj", "up_proj", "down_proj"]},
    "t5": {"attention": ["q", "k", "v", "o"], "mlp": ["wi", "wo"]}}
TENSORS = {"llama": "model.layers.0.mlp.up_proj.weight", "t5": "encoder.block.0.layer.0.SelfAttention.q.weight"}


@dataclass
class Change:
    """A specification in the making. `is_legal` is False once its losses may be others."""

    spec: dict
    draw: random.Random
    folder: Path  # for files of its own
    family: str
    is_legal: bool = True

    def value(self, key: str, *values) -> None:
        *section, name = key.split(".")
        place = self.spec
        for part in section:
            place = place.setdefault(part, {})
        place[name] = self.draw.choice([value for value in values if value != place.get(name)])

    def decides(self, key: str, *values) -> None:
        self.value(key, *values)
        self.is_legal = False

    @property
    def has_adapters(self) -> bool:
        return self.spec["method"] != "full"

    @property
    def has_dropout(self) -> bool:
        return self.spec.get("lora", {}).get("dropout", 0) > 0 or self.spec["dropout_rate"] > 0

    @property
    def source(self) -> Path | None:
        return Path(self.spec["model"]["source"]) if "source" in self.spec["model"] else None


def draw_strategy(change: Change) -> None:
    kind, ranks = change.draw.choice(RANKS)
    offload = change.draw.choice(["none", "optimizer", *(["parameters"] if kind != "ddp" else [])])
    change.spec["strategy"] = {"kind": kind, "ranks": ranks, "offload": offload,
                               "wrap": change.draw.choice(["transformer_block", "none"])}


def move_base(change: Change) -> None:
    if change.source:
        change.spec["model"] = {"source": str(shutil.copytree(change.source, change.folder / "moved_base"))}


def change_base(change: Change) -> None:
    if change.source:
        base = copy_with_changed_tensor(change.source, change.folder / "other_base", TENSORS[change.family],
                                        lambda tensor: tensor.mul_(1.5))
        change.spec["model"] = {"source": str(base)}
        change.is_legal &= not change.has_adapters


def drop_a_layer(change: Change) -> None:
    change.is_legal = False
    if not change.source:
        change.spec["model"]["config"] = RANDOM_MODEL | {"num_hidden_layers": 2}
        return
    names = ("num_layers", "encoder.block") if change.family == "t5" else ()
    base = copy_without_last_layer(change.source, change.folder / "fewer_layers", *names)
    change.spec["model"] = {"source": str(base)}


def name_targets_otherwise(change: Change) -> None:
    if change.has_adapters:
        names = NAMES[change.family]
        words = {"all-linear": [*names["attention"], *names["mlp"]], **names}
        targets = [name for target in change.spec["lora"]["targets"] for name in words.get(target, [target])]
        change.spec["lora"]["targets"] = change.draw.sample(targets, len(targets))


def change_seed(change: Change) -> None:
    change.value("train.seed", 1, 2, 3)
    is_drawn = change.spec["data"]["shuffle"] or change.has_dropout or "rounding" in change.spec["optimizer"]
    change.is_legal &= not is_drawn and not (change.has_adapters and change.source is None)


def change_micro_batch(change: Change) -> None:
    change.value("batch.size_per_rank", 1, 2)
    change.is_legal &= not change.has_dropout


def train_longer(change: Change) -> None:
    change.value("train.steps", STEPS + 2)
    schedule = change.spec["schedule"]
    change.is_legal &= schedule["kind"] == "constant" or "decay_steps" in schedule


def move_data(change: Change) -> None:
    data = Path(change.spec["data"]["train"])
    change.spec["data"]["train"] = str(shutil.copy(data, change.folder / f"moved{data.suffix}"))


def of_adapters(key: str, *values) -> Callable[[Change], None]:
    return lambda change: change.decides(key, *values) if change.has_adapters else None


CHANGES = [
    draw_strategy, move_base, name_targets_otherwise, change_micro_batch, train_longer, move_data, change_seed,
    lambda change: change.value("activation_checkpointing.every", 1, 2),
    lambda change: change.value("checkpoint.state_dict", "full", "sharded"),
    change_base, drop_a_layer,
    of_adapters("lora.alpha", 2.0, 4.0, 8.0), of_adapters("lora.rank", 2, 3, 4), of_adapters("lora.dropout", 0.1, 0.3),
    of_adapters("lora.use_rslora", True, False), of_adapters("lora.targets", ["all-linear"], ["attention"], ["mlp"]),
    of_adapters("method", "lora", "qlora"), lambda change: change.decides("batch.total", 2 * TOTAL),
    *(lambda change, key=key, values=values: change.decides(key, *values) for key, *values in [
        ("optimizer.learning_rate", 1e-3, 5e-3), ("optimizer.beta1", 0.8), ("optimizer.weight_decay", 0.5),
        ("optimizer.gradient_clip_norm", 0.01), ("optimizer.kind", "adam", "sgd"), ("optimizer.state_dtype", "bf16"),
        ("precision", "bf16_mixed", "bf16_true"), ("schedule.kind", "constant", "cosine", "linear"),
        ("schedule.warmup_steps", 3), ("schedule.decay_steps", 4, 9), ("data.shuffle", True, False),
        ("data.sequence_length", SEQUENCE_LENGTH - 1)]),
]


def draw_writer(draw: random.Random, bases: dict[str, Path], data: dict[str, Path], folder: Path) -> Change:
    base = draw.choice(["llama", "llama", "random", "t5", "t5 with dropout"])
    family = "t5" if base.startswith("t5") else "llama"
    spec = {
        "model": {"config": RANDOM_MODEL} if base == "random" else {"source": str(bases[base])},
        "method": draw.choice(["full", "lora", "lora", "qlora"]),
        "data": {"kind": "wikihow" if family == "t5" else "tokens", "train": str(data[family]),
                 "sequence_length": SEQUENCE_LENGTH, "shuffle": draw.random() < 0.5},
        "batch": {"size_per_rank": 2, "total": TOTAL},
        "optimizer": {"kind": "adamw", "learning_rate": 3e-3},
        "schedule": draw.choice([{"kind": "constant"}, {"kind": "cosine"}, {"kind": "linear", "decay_steps": 5}]),
        "train": {"steps": STEPS, "seed": 1},
        "checkpoint": {"every_steps": 1, "state_dict": draw.choice(["full", "sharded"])},
        "device": "cpu", "threads_per_rank": 1, "dropout_rate": 0.2 if base == "t5 with dropout" else 0.0}
    if family == "t5":
        spec["data"] |= {"tokenizer": str(TOKENIZER), "prefix": "play: ", "input_length": 24, "target_length": 10}
    if spec["method"] != "full":
        spec["lora"] = {"rank": 4, "alpha": 8.0, "dropout": draw.choice([0.0, 0.2]),
                        "targets": draw.choice([["all-linear"], ["attention"], ["mlp"]])}
    writer = Change(spec, draw, folder, family)
    draw_strategy(writer)
    return writer


def specification(change: Change) -> dict:
    return {key: value for key, value in change.spec.items() if key != "dropout_rate"}


def killed_checkpoint(trainer: Path, spec: dict, folder: Path, step: int) -> Path:
    """Kills the run once it has the checkpoint of `step`. Returns the newest one that leaves steps."""
    processes = start(trainer, spec, folder)
    checkpoints = folder / "checkpoints"
    wait_until("there is a checkpoint", lambda: (checkpoints / f"step-{step}").exists()
               or any(process.poll() is not None for process in processes))
    for process in processes:
        process.kill()
    wait_for(processes)
    steps = [int(place.name.removeprefix("step-")) for place in checkpoints.iterdir() if "." not in place.name]
    return checkpoints / f"step-{max(step for step in steps if step < STEPS)}"


def check_reader(trainer: Path, reader: Change, names: str, checkpoint: Path, losses: list[float]) -> None:
    folder = reader.folder / "run"
    step = int(checkpoint.name.removeprefix("step-"))
    if reader.draw.random() < 0.5:
        spec = specification(reader) | {"resume": str(checkpoint)}
    else:
        spec = specification(reader) | {"resume": "auto"}
        shutil.copytree(checkpoint, folder / "checkpoints" / checkpoint.name)
    processes = start(trainer, spec, folder)
    codes = wait_for(processes)
    log = log_file(folder, 0).read_text()
    if any(codes):
        assert set(codes) <= {2, 4} and 2 in codes, f"{names}: {codes}\n{log}"
        assert not reader.is_legal, f"{names}: refused\n{log}"
        assert '"kind":"step"' not in events_file(folder).read_text(), names
        return
    events = read_events(folder)
    assert events[0]["resumed_from_step"] == step, names
    found = [event["loss"] for event in of_kind("step", events)]
    assert_close(f"loss after {names}", losses[step:], found[: STEPS - step], TOLERANCE)


@pytest.fixture(scope="module")
def bases(checkpoints, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("t5")
    return {"llama": checkpoints["grouped_query"], "t5": write_model(folder / "plain", "t5"),
            "t5 with dropout": write_model(folder / "dropout", "t5", 0.2)}


@pytest.fixture(scope="module")
def data(tokens, tmp_path_factory) -> dict[str, Path]:
    return {"llama": tokens, "t5": write_articles(tmp_path_factory.mktemp("articles") / "articles.csv")}


@pytest.mark.parametrize("seed", WRITERS)
def test_resumed_runs_have_equal_losses_or_refuse(trainer, bases, data, tmp_path, seed):
    draw = random.Random(seed)
    writer = draw_writer(draw, bases, data, tmp_path)
    spec = specification(writer)
    losses = train(trainer, spec, tmp_path / "whole").losses()
    checkpoint = killed_checkpoint(trainer, spec, tmp_path / "killed", draw.randint(1, STEPS - 2))
    for number in range(READERS):
        (tmp_path / str(number)).mkdir()
        reader = Change(deepcopy(writer.spec), draw, tmp_path / str(number), writer.family)
        changes = draw.sample(range(len(CHANGES)), draw.choice([0, 1, 1, 1, 2, 3]))
        for change in changes:
            CHANGES[change](reader)
        names = f"changes {changes} of {spec} to {specification(reader)}"
        check_reader(trainer, reader, names, checkpoint, losses)
