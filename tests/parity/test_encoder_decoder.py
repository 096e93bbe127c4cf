"""T5 equals transformers' T5ForConditionalGeneration, with every strategy. Also dropout, and its
resume."""

import csv
import json
import random
import shutil
from functools import cache
from pathlib import Path

import pytest
import sentencepiece
import torch
from agreement import assert_close, assert_ranks_agree
from logits import assert_same_logits, first_logits
from peft_reference import NF4, Adapters, peft, write_adapter
from reference import adamw_of
from test_against_transformers import TOLERANCE, Case, cases
from trainer import log_file, of_kind, read_events, start, train, wait_for
from transformers import T5Config, T5ForConditionalGeneration

TOKENIZER = Path(__file__).parents[2] / "experiments/data/chess/tokenizer.model"
STEPS = 10
TOTAL_BATCH = 12
INPUT_LENGTH = 24
TARGET_LENGTH = 10
PREFIX = "play: "
VARIANTS = {"t5": dict(feed_forward_proj="relu"), "t5_1.1": dict(feed_forward_proj="gated-gelu",
                                                                 tie_word_embeddings=False),
            "t5_1.1_without_head": dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)}


def write_model(folder: Path, variant: str, dropout: float = 0.0) -> Path:
    torch.manual_seed(7)
    # bitsandbytes' AVX-512 kernel is wrong for rows whose width is a multiple of 16 but not of 64.
    config = T5Config(
        vocab_size=1024, d_model=46, d_kv=10, d_ff=70, num_layers=2, num_decoder_layers=3, num_heads=5,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=dropout,
        decoder_start_token_id=0, **VARIANTS[variant])
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name:  # otherwise all ones
                parameter.uniform_(0.5, 1.5)
        if variant == "t5_1.1":
            model.lm_head.weight = torch.nn.Parameter(torch.randn(1024, 46) * 0.3)
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    assert written["tie_word_embeddings"]  # transformers 5 writes this for T5 1.1 too
    assert written["scale_decoder_outputs"] == (variant == "t5")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(variant, dropout) -> its folder."""
    return cache(lambda variant, dropout=0.0: write_model(
        tmp_path_factory.mktemp("model") / variant, variant, dropout))


def write_articles(file: Path) -> Path:
    """Writes texts, some shorter and some longer than INPUT_LENGTH. Headlines vary likewise."""
    draw = random.Random(3)
    words = ["e4", "Nf3", "d5", "O-O", "Qxf7#", "1.", "2.", "Bb5", "1-0"]
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["headline", "title", "text"])
        for _ in range(STEPS * TOTAL_BATCH):
            text = " ".join(draw.choices(words, k=draw.randint(1, 15)))
            rows.writerow([" ".join(draw.choices(words, k=draw.randint(1, 7))), "none", text])
    return file


def tokenized(articles: Path) -> list[tuple[list[int], list[int]]]:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))

    def tokens(text, length):
        return pieces.encode(text)[: length - 1] + [pieces.eos_id()]

    with articles.open(newline="") as lines:
        return [(tokens(PREFIX + row["text"], INPUT_LENGTH), tokens(row["headline"], TARGET_LENGTH))
                for row in csv.DictReader(lines)]


@pytest.fixture(scope="module")
def articles(tmp_path_factory) -> Path:
    return write_articles(tmp_path_factory.mktemp("articles") / "articles.csv")


@pytest.fixture(scope="module")
def pairs(articles) -> list[tuple[list[int], list[int]]]:
    return tokenized(articles)


def batch_of(pairs):
    inputs = torch.zeros(len(pairs), INPUT_LENGTH, dtype=torch.long)
    mask = torch.zeros_like(inputs)
    labels = torch.full((len(pairs), TARGET_LENGTH), -100)
    for row, (source, target) in enumerate(pairs):
        inputs[row, : len(source)] = torch.tensor(source)
        mask[row, : len(source)] = 1
        labels[row, : len(target)] = torch.tensor(target)
    return inputs, mask, labels


def loss_of(model, pairs):
    inputs, mask, labels = batch_of(pairs)
    logits = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(),
                                             reduction="sum") / labels.ne(-100).sum()


def losses_of(model, pairs) -> list[float]:
    """Trains STEPS steps of TOTAL_BATCH pairs, in order. Returns the losses."""
    adamw = adamw_of(model)
    losses = []
    for step in range(STEPS):
        loss = loss_of(model, pairs[step * TOTAL_BATCH : (step + 1) * TOTAL_BATCH])
        loss.backward()
        adamw.step()
        adamw.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def reference(model, pairs):
    """variant -> losses of STEPS steps without dropout, and then the loss of the first batch."""

    @cache
    def compute(variant: str) -> tuple[list[float], float]:
        trained = T5ForConditionalGeneration.from_pretrained(model(variant), dtype=torch.float32).train()
        losses = losses_of(trained, pairs)
        with torch.no_grad():
            return losses, loss_of(trained.eval(), pairs[:TOTAL_BATCH]).item()

    return compute


def spec_of(case, folder, articles, **overrides):
    spec = case.spec(folder, articles)
    spec["data"] = {"kind": "wikihow", "train": str(articles), "tokenizer": str(TOKENIZER), "prefix": PREFIX,
                    "input_length": INPUT_LENGTH, "target_length": TARGET_LENGTH, "shuffle": False,
                    "rows": "pad_to_longest" if case.ranks == 3 else "pad"}
    spec["batch"] = {"size_per_rank": TOTAL_BATCH // case.ranks // case.accumulation,
                     "total": TOTAL_BATCH}
    return spec | overrides


T5_CASES = [
    Case("single"),
    Case("ddp", ranks=2, accumulation=2),
    Case("fsdp", ranks=3, checkpoint_every=1),
    Case("fsdp", "parameters", ranks=2, accumulation=3),
]


@pytest.mark.parametrize("variant", VARIANTS)
@cases(*T5_CASES)
def test_t5(trainer, case, variant, model, articles, pairs, reference, tmp_path):
    losses, evaluated = reference(variant)
    spec = spec_of(case, model(variant), articles, checkpoint={"at_end": True},
                   evaluation={"every_steps": STEPS, "data": str(articles), "batches": 1,
                               "size_per_rank": TOTAL_BATCH // case.ranks})
    run = train(trainer, spec, tmp_path / "run")
    assert_ranks_agree(run)
    assert_close("loss", losses, run.losses(), TOLERANCE)
    [evaluation] = of_kind("evaluation", read_events(tmp_path / "run"))
    assert evaluation["loss"] == pytest.approx(evaluated, rel=TOLERANCE)

    written, report = T5ForConditionalGeneration.from_pretrained(
        tmp_path / f"run/checkpoints/step-{STEPS}", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    with torch.no_grad():
        assert loss_of(written.eval(), pairs[:TOTAL_BATCH]).item() == pytest.approx(evaluated, rel=TOLERANCE)


@pytest.fixture(scope="module")
def reference_logits(model, pairs):
    """variant -> logits of the first batch without dropout, and a mask of the positions with a
    label."""

    @cache
    def compute(variant: str):
        t5 = T5ForConditionalGeneration.from_pretrained(model(variant), dtype=torch.float32).eval()
        inputs, mask, labels = batch_of(pairs[:TOTAL_BATCH])
        with torch.no_grad():
            logits = t5(input_ids=inputs, attention_mask=mask, labels=labels).logits
        return logits.flatten(0, 1).numpy(), labels.flatten().ne(-100).numpy()

    return compute


@pytest.mark.parametrize("variant", VARIANTS)
@cases(T5_CASES[0], T5_CASES[-1])
def test_logits(logits_writer, case, variant, model, articles, reference_logits, tmp_path):
    spec = spec_of(case, model(variant), articles)
    spec["data"]["rows"] = "pad"
    logits = first_logits(logits_writer, spec, articles, tmp_path / "run")
    expected, is_label = reference_logits(variant)
    assert_same_logits(expected, logits.training, is_label)
    assert_same_logits(expected, logits.evaluation, is_label)


def test_evaluation_drops_nothing_out(logits_writer, model, articles, reference_logits, tmp_path):
    spec = spec_of(Case("single"), model("t5", 0.3), articles)
    logits = first_logits(logits_writer, spec, articles, tmp_path / "run")
    expected, is_label = reference_logits("t5")
    assert_same_logits(expected, logits.evaluation, is_label)
    with pytest.raises(AssertionError, match="logits differ"):
        assert_same_logits(expected, logits.training, is_label)


# These cases have micro-batches of the same rows, with the same dropout.
FOURTHS = [Case("single", accumulation=4), Case("ddp", ranks=2, accumulation=2),
           Case("fsdp", ranks=4, checkpoint_every=1)]


def test_dropout_is_the_same_on_any_number_of_ranks_and_after_a_resume(trainer, model, articles, tmp_path):
    folder = model("t5", 0.3)
    runs = {}
    for case in FOURTHS:
        spec = spec_of(case, folder, articles, checkpoint={"every_steps": STEPS // 2})
        runs[case] = train(trainer, spec, tmp_path / str(case))
        assert_close("loss", runs[FOURTHS[0]].losses(), runs[case].losses(), TOLERANCE)
    without = train(trainer, spec_of(FOURTHS[0], model("t5"), articles), tmp_path / "without")
    assert without.losses()[0] != pytest.approx(runs[FOURTHS[0]].losses()[0], rel=1e-3)

    for case in FOURTHS:
        again = tmp_path / f"{case}-again"
        shutil.copytree(tmp_path / str(case) / f"checkpoints/step-{STEPS // 2}", again / "checkpoints" / "step-5")
        resumed = train(trainer, spec_of(case, folder, articles, resume="auto"), again)
        assert resumed.losses() == runs[case].losses()[STEPS // 2 :]
    halves = spec_of(Case("single", accumulation=2), folder, articles, resume=str(again / "checkpoints/step-5"))
    assert any(wait_for(start(trainer, halves, tmp_path / "halves")))
    said = "batch.size_per_rank (dropout) 3; the run's is 6; resume with the same"
    assert said in log_file(tmp_path / "halves", 0).read_text()


@pytest.mark.parametrize("case, targets, method", [
    *((case, "all-linear", "lora") for case in T5_CASES),
    *((case, *adapters) for case in (T5_CASES[0], T5_CASES[-1])
      for adapters in [("attention", "lora"), ("mlp", "lora"), ("all-linear", "qlora")])], ids=str)
def test_adapters(trainer, case, targets, method, model, articles, pairs, tmp_path):
    """Adapters are trained as PEFT trains them."""
    adapters = Adapters(rank=4, targets=(targets,), method=method)
    attention, mlp = ["q", "k", "v", "o"], ["wi_0", "wi_1", "wo"]
    names = {"all-linear": attention + mlp, "attention": attention, "mlp": mlp}[targets]

    def load(quantization=None):
        return T5ForConditionalGeneration.from_pretrained(model("t5_1.1"), dtype=torch.float32,
                                                          quantization_config=quantization)

    folder = write_adapter(load(), adapters, tmp_path / "adapter", names)
    base = load(NF4 if method == "qlora" else None)
    trained = peft.PeftModel.from_pretrained(base, folder, is_trainable=True).train()
    losses = losses_of(trained, pairs)
    spec = spec_of(case, model("t5_1.1"), articles, **adapters.keys(folder))
    run = train(trainer, spec, tmp_path / "run")
    assert_ranks_agree(run)
    assert_close("loss", losses, run.losses(), TOLERANCE)


@pytest.mark.parametrize("variant, method", [*((variant, "lora") for variant in VARIANTS), ("t5_1.1", "qlora")])
@cases(T5_CASES[0], T5_CASES[-1])
def test_merged_models(trainer, case, variant, method, model, articles, pairs, tmp_path):
    """A merged model computes what PEFT computes with the checkpoint's adapters."""
    spec = spec_of(case, model(variant), articles, method=method, lora={"rank": 4},
                   checkpoint={"at_end": True, "merge": True, "merge_dtype": "fp32"})
    train(trainer, spec, tmp_path)
    folder = tmp_path / f"checkpoints/step-{STEPS}"
    merged, report = T5ForConditionalGeneration.from_pretrained(folder / "merged", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    base = T5ForConditionalGeneration.from_pretrained(
        model(variant), dtype=torch.float32, quantization_config=NF4 if method == "qlora" else None)
    reference = peft.PeftModel.from_pretrained(base, folder)
    if method == "lora":
        reference = reference.merge_and_unload()
    inputs, mask, labels = batch_of(pairs[:TOTAL_BATCH])
    with torch.no_grad():  # train(), as bitsandbytes evaluates only wide layers
        ours, expected = (of.train()(input_ids=inputs, attention_mask=mask, labels=labels).logits
                          for of in (merged, reference))
    assert torch.allclose(ours, expected, rtol=0, atol=1e-5 if method == "lora" else 1e-4)
