"""What docs/fingerprints.py writes of transformers' models under DDP, FSDP2 and PEFT is what fsdp-train writes of the
same training. A fault in their training is seen where it begins. By hand: --runs 30 tries 30 random trainings."""

import json
import random
import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import checkpoints
import pytest
import torch
from data.conftest import read_prepared
from other_trainer import ROOT, Fingerprints, Spec, adamw_of
from other_trainer import train as train_here
from peft_reference import Adapters, load_model, write_adapter
from trainer import start_ranks, train, wait_until_well_ended

STEPS = 3
RANKS = {"ddp": 2, "fsdp2": 2, None: 1}
OTHER = Path(__file__).with_name("other_trainer.py")
TOKENIZER = ROOT / "experiments/data/chess/tokenizer.model"
VOCABULARY_SIZE = 1024


def random_variant(draw: random.Random) -> checkpoints.Variant:
    heads = draw.choice([2, 4])
    config = dict(vocab_size=VOCABULARY_SIZE, num_hidden_layers=draw.choice([2, 3]),
                  hidden_size=draw.choice([32, 48, 64]), intermediate_size=draw.randrange(50, 120),
                  num_attention_heads=heads, num_key_value_heads=draw.choice([1, heads]), max_position_embeddings=64,
                  tie_word_embeddings=draw.random() < 0.5)
    return checkpoints.Variant(config, draw.choice(["Llama", "Mistral", "Qwen2", "Qwen3"]) + "ForCausalLM")


def write_data(draw: random.Random, count: int, file: Path) -> dict:
    """Writes texts, or questions and answers. Returns the section `data` of a run on them."""
    def words(least: int) -> str:
        return " ".join(draw.choices(["e4", "Nf3", "Qxd8", "O-O", "Kd7", "Rxb7"], k=draw.randrange(least, 9)))

    kind = draw.choice(["text", "instructions"])
    records = [{"text": words(1), "instruction": words(1), "output": words(0)} for _ in range(count)]
    file.write_text("\n".join(json.dumps(record) for record in records))
    plain = {"with_input": "{instruction} {input}: ", "without_input": "{instruction}: "}
    return {"kind": kind, "train": str(file), "tokenizer": str(TOKENIZER), "sequence_length": 48, "shuffle": False,
            "rows": draw.choice(["pad", "pad_to_longest"]), "template": plain}


def random_strategy(draw: random.Random, total: int) -> dict:
    kind = draw.choice(["single", "ddp", "fsdp"]) if total % 2 == 0 else "single"
    strategy = {"kind": kind, "ranks": 1 if kind == "single" else 2,
                "offload": draw.choice(["none", "optimizer"] + (["parameters"] if kind != "ddp" else []))}
    if kind == "fsdp":
        strategy |= {"sharding": draw.choice(["full_shard", "shard_grad_op", "no_shard"]),
                     "accumulate": draw.choice(["sharded", "unsharded"])}
    return strategy


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


class Training:
    """The same random training by fsdp-train and by another trainer, in one folder."""

    def __init__(self, trainer: Path, folder: Path, draw: random.Random, wrapper: str | None,
                 has_adapter: bool = False, fault: str | None = None):
        folder.mkdir(parents=True)
        self.ours, self.theirs = folder / "ours/attempt-1/fingerprints", folder / "theirs"
        variant = random_variant(draw)
        checkpoints.write_variant(variant, folder / "model")
        size, accumulation = draw.choice([1, 2, 3]), draw.choice([1, 2, 3])
        if fault:
            size, accumulation = 2, 3
        self.ranks = RANKS[wrapper]
        total = self.ranks * size * accumulation
        optimizer = {"learning_rate": draw.choice([1e-3, 3e-3]), "weight_decay": draw.choice([0.0, 0.1]),
                     "beta1": 0.9, "beta2": draw.choice([0.95, 0.999]), "epsilon": draw.choice([1e-3, 1e-6])}
        clip_norm = 0.1 if fault == "local_norm" else draw.choice([None, 0.1, 5.0])
        strategy = random_strategy(draw, total)
        data = write_data(draw, (STEPS + 1) * total, folder / "texts.jsonl")
        run = {
            "model": {"source": str(folder / "model")}, "data": data, "strategy": strategy,
            "batch": {"size_per_rank": draw.choice(divisors(total // strategy["ranks"])), "total": total},
            "optimizer": {"kind": "adamw", **optimizer, "gradient_clip_norm": clip_norm},
            "activation_checkpointing": {"every": draw.choice([0, 1])},
            "train": {"steps": STEPS, "seed": 1, "fingerprint_steps": [1, "2-9"]}, "device": "cpu",
            "threads_per_rank": 1}
        adapter = None
        if has_adapter:
            rank = draw.choice([1, 4])
            adapters = Adapters(rank, 2.0 * rank, draw.choice([("all-linear",), ("q_proj", "mlp")]))
            adapter = str(write_adapter(load_model(folder / "model"), adapters, folder / "adapter"))
            run |= adapters.keys(adapter)
        self.description = f"{wrapper} {variant} {run}"
        train(trainer, run, folder / "ours")
        [prepared] = (folder / "ours/prepared").glob("*.tokens")
        documents = read_prepared(prepared)
        rows = [[part[:data["sequence_length"] + 1] for part in row] for row in zip(documents.tokens, documents.labels)]
        (folder / "rows.json").write_text(json.dumps(rows))
        self.spec = Spec(wrapper, str(folder / "model"), adapter, optimizer, clip_norm, str(folder / "rows.json"), size,
                         accumulation, STEPS, draw.random() < 0.3, str(self.theirs), fault)
        self.file = folder / "theirs.json"
        self.file.write_text(json.dumps(asdict(self.spec)))

    def answer(self, runner: Path) -> str:
        """Returns what `fsdp-run diverge` says of both."""
        return subprocess.run([runner, "diverge", self.ours, self.theirs], capture_output=True, text=True, check=True,
                              cwd=self.theirs).stdout

    def common_quantities(self, step: int) -> set[str]:
        def quantities(folder: Path) -> set[str]:
            lines = (folder / f"step-{step}.rank0.jsonl").read_text().splitlines()
            return {json.loads(line)["of"] for line in lines[1:-1]}

        return quantities(self.ours) & quantities(self.theirs)


def train_others(trainings: list[Training], folder: Path) -> None:
    """Trains those of several ranks in one process per rank. Most of the time of a single one would go to starting
    Python."""
    for training in trainings:
        if training.ranks == 1:
            train_here(training.spec)
    files = [str(training.file) for training in trainings if training.ranks == 2]
    (folder / "ranks/attempt-1").mkdir(parents=True)
    wait_until_well_ended(start_ranks(OTHER, files, 2, folder / "ranks"), folder / "ranks")


WAYS = [("ddp", False), ("fsdp2", False), (None, True), ("fsdp2", True)]  # wrapper, has an adapter
# Wrapper, and the line with the fault's place.
FAULTS = {"mean_of_means": ("ddp", "first  the gradient of .* after its reduction"),
          "local_norm": ("fsdp2", "first  the gradient norm"),
          "other_row": ("ddp", "first  the tokens of a row\n  where  1 of 12 rows; rows 0\n")}
QUANTITIES = {"input_ids", "labels", "weight", "state", "activation", "gradient", "new_state", "new_weight"}


@pytest.fixture(scope="module")
def trainings(trainer, request, seed, tmp_path_factory) -> dict[int | str, Training]:
    """Returns random trainings by number, and those with a fault by its name."""
    folder, draw = tmp_path_factory.mktemp("trainings"), random.Random(seed)
    made = {number: Training(trainer, folder / str(number), draw, *WAYS[number % len(WAYS)])
            for number in range(request.config.getoption("--runs") or len(WAYS))}
    made |= {fault: Training(trainer, folder / fault, draw, wrapper, fault=fault)
             for fault, (wrapper, _) in FAULTS.items()}
    train_others(list(made.values()), folder)
    return made


def test_random_trainings_agree(trainings, runner):
    for name, training in trainings.items():
        if name in FAULTS:
            continue
        for step in range(1, STEPS + 1):
            norm = {"gradient_norm"} if training.spec.clip_norm is not None else set()
            assert training.common_quantities(step) == QUANTITIES | norm
        assert "do not differ by more than rounding in steps 1 to 3" in training.answer(runner), training.description


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_where_it_begins(trainings, fault, runner):
    answer = trainings[fault].answer(runner)
    assert "differ from step 1 on" in answer
    assert re.search(FAULTS[fault][1], answer), answer


@pytest.mark.parametrize("padding, is_read, words", [
    ("left", True, "padded on the left"),
    ("right", False, "has not read the micro-batch"),
])
def test_what_would_be_recorded_wrongly_is_refused(tmp_path, padding, is_read, words):
    checkpoints.write_variant(checkpoints.Variant(), tmp_path / "model")
    model = load_model(tmp_path / "model")
    fingerprints = Fingerprints(model, adamw_of(model), tmp_path / "fingerprints", steps=[1])
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1] if padding == "left" else [1, 1, 0]])
    with pytest.raises((ValueError, RuntimeError), match=words), fingerprints.step(1):
        fingerprints.batch(input_ids=ids, labels=ids, attention_mask=mask)
        if is_read:
            model(input_ids=ids, attention_mask=mask)
    assert not (tmp_path / "fingerprints").exists()
