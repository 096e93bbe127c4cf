"""The losses are the same for every way to make rows of documents, and to spread them over
ranks."""

import csv
import json
import pathlib

import pytest
import sentencepiece
import torch
from agreement import assert_close, assert_ranks_agree
from conftest import ROOT
from trainer import train
from transformers import LlamaConfig, LlamaForCausalLM

TOKENIZER = ROOT / "experiments/data/chess/tokenizer.model"
SEQUENCE_LENGTH = 48
STEPS = 10
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def pieces():
    return sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(LlamaConfig(
        vocab_size=1024, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=SEQUENCE_LENGTH, initializer_range=0.1,
        bos_token_id=1, eos_token_id=2)).save_pretrained(folder)
    return folder


def texts_of_places(pieces, least, most, count):
    """Yields texts whose documents take `least` to `most` tokens of a row."""
    with (ROOT / "experiments/data/chess/games.csv").open(newline="") as lines:
        for game in csv.DictReader(lines):
            words = game["Moves"].split()
            text = " ".join(words[:least // 2])
            while len(pieces.encode(text)) + 1 < least:
                words, text = words[1:], " ".join([*text.split(), words[1]])
            if least <= len(pieces.encode(text)) + 1 <= most:
                yield text
                count -= 1
            if count == 0:
                return


def spec(model, file, rows, total, strategy=None, size_per_rank=1, kind="text"):
    return {
        "model": {"source": str(model)},
        "data": {"kind": kind, "train": str(file), "tokenizer": str(TOKENIZER), "rows": rows,
                 "sequence_length": SEQUENCE_LENGTH, "shuffle": False},
        "strategy": strategy or {"kind": "single", "ranks": 1},
        "batch": {"size_per_rank": size_per_rank, "total": total},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
        "train": {"steps": STEPS},
        "device": "cpu",
        "threads_per_rank": 1,
    }


@pytest.mark.parametrize("strategy", [{"kind": "single", "ranks": 1}, {"kind": "fsdp", "ranks": 2}])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_packed_rows_have_the_losses_of_their_documents_apart(trainer, model, pieces, tmp_path, strategy, method):
    # Three documents always fit in a row, four never do.
    documents = list(texts_of_places(pieces, 13, 16, 6 * STEPS))
    assert len(documents) == 6 * STEPS
    file = tmp_path / "texts.jsonl"
    file.write_text("\n".join(json.dumps({"text": text}) for text in documents))
    trained = {"method": method} | ({} if method == "full" else {"lora": {"targets": ["all-linear"]}})
    apart, packed = (
        train(trainer, spec(model, file, rows, total, strategy) | trained, tmp_path / rows)
        for rows, total in (("pad", 6), ("pack", 2)))
    assert_close("loss", apart.losses(), packed.losses(), TOLERANCE)
    for one, other in zip(apart.steps[0], packed.steps[0]):
        assert one["label_count"] == other["label_count"]
        assert one["unpadded_tokens"] == other["unpadded_tokens"]
        assert (one["tokens"], other["tokens"]) == (6 * SEQUENCE_LENGTH, 2 * SEQUENCE_LENGTH)


def uneven(pieces, tmp_path):
    """Returns instructions with answers of 1 to about 30 tokens. The first half of each step has
    the short answers."""
    short = ["1", "e4", "0-1"]
    long = list(texts_of_places(pieces, 26, 30, 2 * STEPS))
    records = []
    for step in range(STEPS):
        answers = [short[step % 3], short[(step + 1) % 3], long[2 * step], long[2 * step + 1]]
        records += [{"instruction": "e4?", "input": "", "output": answer} for answer in answers]
    file = tmp_path / "instructions.json"
    file.write_text(json.dumps(records))
    return file, records


@pytest.fixture
def uneven_spec(model, pieces, tmp_path):
    file, records = uneven(pieces, tmp_path)

    def make(rows, **options):
        made = spec(model, file, rows, total=4, kind="instructions", **options)
        made["data"]["template"] = {"without_input": "{instruction} "}
        return made

    return make, records


def test_the_loss_is_the_mean_over_all_labels_however_uneven_ranks_are(
    trainer, model, pieces, uneven_spec, tmp_path
):
    make, records = uneven_spec
    reference = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32)
    total, count = 0.0, 0
    for record in records[:4]:
        prompt = [1, *pieces.encode("e4? ")]
        ids = [1, *pieces.encode("e4? " + record["output"]), 2]
        logits = reference(torch.tensor([ids[:-1]])).logits[0]
        labels = torch.tensor([-100] * (len(prompt) - 1) + ids[len(prompt):])
        total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
        count += (labels != -100).sum().item()
    alone = train(trainer, make("pad", size_per_rank=4), tmp_path / "alone")
    assert alone.steps[0][0]["label_count"] == count
    assert_close("loss", [total / count], alone.losses()[:1], TOLERANCE)
    for strategy in ({"kind": "ddp", "ranks": 2}, {"kind": "ddp", "ranks": 4}, {"kind": "fsdp", "ranks": 4}):
        folder = tmp_path / f"{strategy['kind']}{strategy['ranks']}"
        run = train(trainer, make("pad", strategy=strategy), folder)
        assert_ranks_agree(run)
        assert_close("loss", alone.losses(), run.losses(), TOLERANCE)


def test_rows_padded_to_the_longest_have_the_same_losses_of_fewer_tokens(trainer, uneven_spec, tmp_path):
    make, _ = uneven_spec
    padded = train(trainer, make("pad", size_per_rank=2), tmp_path / "padded")
    strategy = {"kind": "fsdp", "ranks": 2}
    longest = train(trainer, make("pad_to_longest", strategy=strategy, size_per_rank=2), tmp_path / "longest")
    assert_ranks_agree(longest)
    assert_close("loss", padded.losses(), longest.losses(), TOLERANCE)
    for one, other in zip(padded.steps[0], longest.steps[0]):
        assert one["unpadded_tokens"] == other["unpadded_tokens"] <= other["tokens"] < one["tokens"]
