"""Validation figures equal those of transformers, with every strategy."""

import numpy
import pytest
import torch
from agreement import relative_difference
from checkpoints import SEQUENCE_LENGTH, STEPS, TOTAL_BATCH, copy_with_changed_tensor
from cover import pairwise_product
from test_against_transformers import Case
from trainer import of_kind, read_events, train, wait_for, wait_for_text
from transformers import LlamaForCausalLM

LOSS_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def validation(tokens, tmp_path_factory):
    """Rows whose number no number of ranks divides."""
    file = tmp_path_factory.mktemp("validation") / "validation.npy"
    numpy.save(file, numpy.load(tokens)[:37, ::-1])
    return file


def evaluations(folder, rank=0):
    return of_kind("evaluation", read_events(folder, rank))


def figures_of(folder, rows):
    """Returns loss and token accuracy of a Hugging Face folder's model."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    batch = torch.from_numpy(numpy.ascontiguousarray(rows).astype(numpy.int64))
    labels = batch[:, 1:].flatten()
    with torch.no_grad():
        logits = model(batch[:, :-1], use_cache=False).logits.flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    return loss, (logits.argmax(-1) == labels).double().mean().item()


CASES = [
    Case("single"),
    Case("single", "parameters", accumulation=2),
    Case("ddp", ranks=4),
    Case("fsdp", ranks=2, accumulation=2),
    Case("fsdp", ranks=3, checkpoint_every=1),
    Case("fsdp", "parameters", ranks=4),
]


@pairwise_product(case=CASES, variant=["plain", "tied"])
def test_figures_of_the_last_model(trainer, case, variant, checkpoints, tokens, validation,
                                   reference_for, tmp_path):
    spec = case.spec(checkpoints[variant], tokens, evaluation={"data": str(validation),
                                                               "every_steps": 5,
                                                               "size_per_rank": 3},
                     checkpoint={"at_end": True})
    run = train(trainer, spec, tmp_path)
    done = evaluations(tmp_path)
    assert [event["step"] for event in done] == [5, 10]
    rows = numpy.load(validation)
    loss, accuracy = figures_of(tmp_path / f"checkpoints/step-{STEPS}", rows)
    assert relative_difference(loss, done[-1]["loss"]) < LOSS_TOLERANCE
    assert abs(accuracy - done[-1]["token_accuracy"]) < 1e-9
    assert done[-1]["label_count"] == rows.shape[0] * SEQUENCE_LENGTH
    # Evaluations do not change the training.
    for want, have in zip(reference_for(variant).losses, run.losses()):
        assert relative_difference(want, have) < LOSS_TOLERANCE
    for rank in range(1, case.ranks):
        other = evaluations(tmp_path, rank)
        assert [event["loss"] for event in other] == [event["loss"] for event in done]


def test_a_limited_number_of_batches(trainer, checkpoints, tokens, validation, tmp_path):
    spec = Case("fsdp", ranks=2).spec(checkpoints["plain"], tokens,
                                      evaluation={"data": str(validation), "every_steps": STEPS,
                                                  "size_per_rank": 2, "batches": 3},
                                      checkpoint={"at_end": True})
    train(trainer, spec, tmp_path)
    [done] = evaluations(tmp_path)
    assert done["label_count"] == 2 * 2 * 3 * SEQUENCE_LENGTH
    rows = numpy.load(validation)[: 2 * 2 * 3]
    loss, _ = figures_of(tmp_path / f"checkpoints/step-{STEPS}", rows)
    assert relative_difference(loss, done["loss"]) < LOSS_TOLERANCE


def test_a_part_of_the_training_set_is_held_out(trainer, checkpoints, tokens, tmp_path):
    """The last fifth is evaluated at each epoch's end and never trained on."""
    rows = numpy.load(tokens)
    spec = Case("ddp", ranks=2).spec(checkpoints["plain"], tokens, evaluation={"fraction": 0.2,
                                                                               "each_epoch": True},
                                     checkpoint={"at_end": True})
    spec["train"] = {"epochs": 2}
    run = train(trainer, spec, tmp_path)
    trained = len(rows) - len(rows) // 5
    steps = trained // TOTAL_BATCH
    assert len(run.losses()) == 2 * steps
    done = evaluations(tmp_path)
    assert [event["step"] for event in done] == [steps, 2 * steps]
    loss, _ = figures_of(tmp_path / f"checkpoints/step-{2 * steps}", rows[trained:])
    assert relative_difference(loss, done[-1]["loss"]) < LOSS_TOLERANCE
    numpy.save(tmp_path / "rest.npy", rows[:trained])
    spec = Case("ddp", ranks=2).spec(checkpoints["plain"], tmp_path / "rest.npy")
    spec["train"] = {"epochs": 2}
    assert train(trainer, spec, tmp_path / "rest").losses() == run.losses()


@pytest.fixture
def poison(checkpoints, tokens, tmp_path):
    """A model of finite weights in which token 0 always has probability 0, and tokens in which only
    step 4 has token 0. The first feature is large in every embedding. The head's row for token 0
    turns it into minus infinity."""
    folder = copy_with_changed_tensor(
        checkpoints["plain"],
        tmp_path / "embeddings",
        "model.embed_tokens.weight",
        lambda embeddings: embeddings[:, 0].fill_(20),
    )
    folder = copy_with_changed_tensor(
        folder,
        tmp_path / "model",
        "lm_head.weight",
        lambda head: head[0].copy_(torch.nn.functional.one_hot(torch.tensor(0), head.shape[1]) * -3e38),
    )
    rows = numpy.load(tokens)
    rows[rows == 0] = 1
    rows[3 * TOTAL_BATCH, 5] = 0
    file = tmp_path / "tokens.npy"
    numpy.save(file, rows)
    return folder, file


def test_a_loss_that_is_not_finite_stops_the_run(trainer, poison, tmp_path):
    folder, tokens = poison
    spec = Case("fsdp", ranks=2).spec(folder, tokens, checkpoint={"every_steps": 1})
    with pytest.raises(AssertionError, match="the loss of step 4 is not finite"):
        train(trainer, spec, tmp_path / "run")
    steps = of_kind("step", read_events(tmp_path / "run", ends_with="run_failed"))
    assert [step["non_finite"] for step in steps] == [False, False, False, True]
    assert steps[-1]["loss"] is None
    newest = sorted((tmp_path / "run/checkpoints").iterdir())[-1]
    assert newest.name == "step-3"  # nothing is saved later


def test_the_checkpoint_before_such_a_loss_is_completed(trainer, held_disk, poison, tmp_path):
    folder, tokens = poison
    spec = Case("fsdp", ranks=2).spec(folder, tokens, checkpoint={"every_steps": 3})
    run = tmp_path / "run"
    processes = held_disk.start(trainer, spec, run)
    wait_for_text('"non_finite":true', run, processes)
    with held_disk.released():
        wait_for(processes)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-3"]


@pytest.mark.parametrize(
    "case",
    [
        Case("single"),
        Case("ddp", ranks=2, accumulation=2),
        Case("fsdp", ranks=2, clip=True),
        Case("fsdp", "optimizer", ranks=2),
        Case("fsdp", "parameters", ranks=3),
    ],
    ids=str,
)
def test_such_a_step_is_left_out(trainer, case, poison, tmp_path):
    folder, tokens = poison
    spec = case.spec(folder, tokens)
    spec["train"]["on_non_finite"] = "skip"
    run = train(trainer, spec, tmp_path / "run")
    assert [step["skipped"] for step in run.steps[0]] == [step == 3 for step in range(STEPS)]
    assert run.losses()[3] is None
    rows = numpy.load(tokens)
    without = tmp_path / "without.npy"
    numpy.save(without, numpy.delete(rows, range(3 * TOTAL_BATCH, 4 * TOTAL_BATCH), axis=0))
    spec = case.spec(folder, without)
    spec["train"]["steps"] = STEPS - 1
    expected = train(trainer, spec, tmp_path / "expected").losses()
    for want, have in zip(expected, run.losses()[:3] + run.losses()[4:]):
        assert relative_difference(want, have) < LOSS_TOLERANCE
