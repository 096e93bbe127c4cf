"""A run that resumes from a checkpoint computes what the uninterrupted run computes, for
checkpoints of every strategy. transformers opens full checkpoints."""

import json
import shutil
import signal
from functools import cache
from pathlib import Path

import numpy
import pytest
import torch
from agreement import assert_close
from checkpoints import FAMILIES, STEPS, TOTAL_BATCH, copy_with_changed_tensor, copy_without_last_layer
from cover import pairwise_product
from test_against_transformers import Case
from trainer import events_file, log_file, of_kind, read_events, read_run, start, train, wait_for, wait_for_text, \
    wait_until_well_ended
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-5
MIDDLE = STEPS // 2

SINGLE = Case("single")
FSDP_4 = Case("fsdp", ranks=4)
CASES = [
    SINGLE,
    Case("single", "optimizer", accumulation=2, clip=True),
    Case("ddp", ranks=2, clip=True),
    Case("ddp", "optimizer", ranks=3),
    Case("fsdp", ranks=2, accumulation=2, clip=True),
    Case("fsdp", "optimizer", ranks=3, checkpoint_every=1),
    FSDP_4,
]


def written(state_dict: str = "full", **keys) -> dict:
    """Returns keys that write checkpoints. `state_dict` is the key's value, or `merged` for
    adapters with the merged model."""
    if state_dict == "merged":
        adapters = {"method": "lora", "lora": {"rank": 4, "targets": ["attention"]}}
        return adapters | written("full", merge=True, **keys)
    return {"checkpoint": {"every_steps": MIDDLE, "state_dict": state_dict} | keys}


def started(run_folder: Path) -> dict:
    return read_events(run_folder)[0]


def contents(run_folder: Path, step: int) -> dict[str, bytes]:
    folder = run_folder / "checkpoints" / f"step-{step}"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(run_folder: Path) -> list[str]:
    return sorted(path.name for path in (run_folder / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def uninterrupted(trainer, checkpoints, tokens, tmp_path_factory):
    """(case, variant, state_dict) -> (run, folder) of a run that writes checkpoints. Each runs
    once."""

    @cache
    def run(case: Case, variant: str = "plain", state_dict: str = "full"):
        folder = tmp_path_factory.mktemp("uninterrupted") / "run"
        spec = case.spec(checkpoints[variant], tokens, **written(state_dict))
        return train(trainer, spec, folder), folder

    return run


def resume(trainer, spec: dict, checkpoint: Path, folder: Path):
    run = train(trainer, spec | {"resume": str(checkpoint)}, folder)
    assert started(folder)["resumed_from_step"] == MIDDLE
    assert [step["step"] for step in run.steps[0]] == list(range(MIDDLE + 1, STEPS + 1))
    return run


# Resume


@pairwise_product(case=CASES, state_dict=["full", "sharded", "merged"])
def test_resumed_run_equals_the_uninterrupted_one(trainer, uninterrupted, checkpoints, tokens,
                                                  tmp_path, case, state_dict):
    """Figures are equal to the last printed digit."""
    run, folder = uninterrupted(case, state_dict=state_dict)
    spec = case.spec(checkpoints["plain"], tokens, **written(state_dict))
    again = resume(trainer, spec, folder / "checkpoints" / f"step-{MIDDLE}", tmp_path / "run")
    for name in ("loss", "gradient_norm", "learning_rate", "tokens"):
        expected = [step[name] for step in run.steps[0]][MIDDLE:]
        assert [step[name] for step in again.steps[0]] == expected, name


@pytest.mark.parametrize("resume_key", ["folder", "auto"])
def test_a_run_resumes_without_the_merged_model(trainer, uninterrupted, checkpoints, tokens, tmp_path, resume_key):
    run, folder = uninterrupted(SINGLE, state_dict="merged")
    checkpoint = tmp_path / "run" / "checkpoints" / f"step-{MIDDLE}"
    shutil.copytree(folder / "checkpoints" / checkpoint.name, checkpoint)
    shutil.rmtree(checkpoint / "merged")
    spec = SINGLE.spec(checkpoints["plain"], tokens, **written("merged"))
    again = resume(trainer, spec, checkpoint if resume_key == "folder" else "auto", tmp_path / "run")
    assert again.losses() == run.losses()[MIDDLE:]


@pytest.mark.parametrize(
    "keys",
    [
        {"optimizer": {"kind": "adam", "learning_rate": 3e-3, "state_dtype": "bf16"}},
        {"optimizer": {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9}},
        {"optimizer": {"kind": "adadelta", "learning_rate": 1.0, "epsilon": 1e-6}},
        {"schedule": {"kind": "cosine", "warmup_steps": 3}},
        {"precision": "bf16_true"},
        {"precision": "bf16_true", "optimizer": {"kind": "adamw", "rounding": "stochastic"}},
        {"precision": "bf16_mixed"},
        {"precision": "fp16_mixed"},
    ],
    ids=lambda keys: "-".join(str(value) for value in keys.values()),
)
def test_every_state_is_resumed(trainer, checkpoints, large_gradients, tokens, tmp_path, keys):
    case = Case("fsdp", ranks=2)
    source = large_gradients if keys == {"precision": "fp16_mixed"} else checkpoints["plain"]
    spec = case.spec(source, tokens, **written("sharded"), **keys)
    run = train(trainer, spec, tmp_path / "first")
    checkpoint = tmp_path / "first" / "checkpoints" / f"step-{MIDDLE}"
    again = resume(trainer, spec, checkpoint, tmp_path / "second")
    for name in ("loss", "learning_rate", "gradient_scale"):
        expected = [step[name] for step in run.steps[0]][MIDDLE:]
        assert [step[name] for step in again.steps[0]] == expected, name


INT8 = {"optimizer": {"kind": "adamw", "learning_rate": 3e-3, "state_dtype": "int8"}}


@pytest.mark.parametrize("writer, reader", [(Case("fsdp", ranks=2), Case("ddp", ranks=2)),
                                            (Case("ddp", ranks=2), Case("fsdp", ranks=2))], ids=str)
def test_8_bit_state_is_resumed_to_the_bit(trainer, checkpoints, tokens, tmp_path, writer, reader):
    """With two ranks, DDP and FSDP add gradients in the same order."""
    spec = writer.spec(checkpoints["plain"], tokens, **written("sharded"), **INT8)
    run = train(trainer, spec, tmp_path / "first")
    checkpoint = tmp_path / "first" / "checkpoints" / f"step-{MIDDLE}"
    other = reader.spec(checkpoints["plain"], tokens, **INT8)
    again = resume(trainer, other, checkpoint, tmp_path / "second")
    assert again.losses() == run.losses()[MIDDLE:]


@pytest.mark.parametrize("state_dict", ["full", "sharded"])
@pytest.mark.parametrize("reader", [SINGLE, Case("ddp", ranks=2), Case("fsdp", ranks=2),
                                    Case("fsdp", ranks=3, accumulation=2)], ids=str)
def test_other_ranks_and_strategies_resume(trainer, uninterrupted, checkpoints, tokens, tmp_path,
                                           reader, state_dict):
    run, folder = uninterrupted(FSDP_4, state_dict=state_dict)
    spec = reader.spec(checkpoints["plain"], tokens)
    again = resume(trainer, spec, folder / "checkpoints" / f"step-{MIDDLE}", tmp_path / "run")
    assert_close("loss", run.losses()[MIDDLE:], again.losses(), TOLERANCE)


@pytest.mark.parametrize("writer", [SINGLE, Case("ddp", ranks=2), Case("fsdp", ranks=2)], ids=str)
def test_four_ranks_resume(trainer, uninterrupted, checkpoints, tokens, tmp_path, writer):
    run, folder = uninterrupted(writer, state_dict="sharded")
    spec = FSDP_4.spec(checkpoints["plain"], tokens)
    again = resume(trainer, spec, folder / "checkpoints" / f"step-{MIDDLE}", tmp_path / "run")
    assert_close("loss", run.losses()[MIDDLE:], again.losses(), TOLERANCE)


def test_shuffled_data_go_on_where_they_were(trainer, uninterrupted, checkpoints, tokens, tmp_path):
    case = Case("fsdp", ranks=2)
    spec = case.spec(checkpoints["plain"], tokens, **written("sharded"))
    spec["data"]["shuffle"] = True
    run = train(trainer, spec, tmp_path / "first")
    checkpoint = tmp_path / "first" / "checkpoints" / f"step-{MIDDLE}"
    again = resume(trainer, spec, checkpoint, tmp_path / "second")
    assert again.losses() == run.losses()[MIDDLE:]
    assert run.losses() != uninterrupted(case)[0].losses()


def test_auto_without_a_checkpoint_begins_at_the_beginning(trainer, uninterrupted, checkpoints,
                                                           tokens, tmp_path):
    run = train(trainer, SINGLE.spec(checkpoints["plain"], tokens, resume="auto"), tmp_path / "run")
    assert started(tmp_path / "run")["resumed_from_step"] == 0
    assert run.losses() == uninterrupted(SINGLE)[0].losses()


# Keys that must be equal in a checkpoint's run and in the run that continues it


@pytest.fixture(scope="module")
def written_shuffled(trainer, checkpoints, tokens, tmp_path_factory):
    """The specification, the run and the checkpoint of a run with shuffled data."""
    folder = tmp_path_factory.mktemp("shuffled") / "run"
    spec = SINGLE.spec(checkpoints["plain"], tokens, **written("sharded"))
    spec["data"]["shuffle"] = True
    return spec, train(trainer, spec, folder), folder / "checkpoints" / f"step-{MIDDLE}"


def with_key(spec: dict, key: str, value) -> dict:
    section, name = key.split(".")
    return spec | {section: spec.get(section, {}) | {name: value}}


def refusal(trainer: Path, spec: dict, checkpoint: Path, folder: Path) -> str:
    assert any(wait_for(start(trainer, spec | {"resume": str(checkpoint)}, folder)))
    return log_file(folder, 0).read_text()


def test_moved_data_go_on_and_other_data_are_refused(trainer, written_shuffled, tokens, tmp_path):
    """trainer/checkpoint/basis_test.cpp tests which keys must be equal."""
    spec, run, checkpoint = written_shuffled
    moved = with_key(spec, "data.train", str(shutil.copy(tokens, tmp_path / "moved.npy")))
    assert resume(trainer, moved, checkpoint, tmp_path / "moved").losses() == run.losses()[MIDDLE:]
    rows = numpy.load(tokens)
    rows[-1, -1] = (rows[-1, -1] + 1) % 97
    numpy.save(tmp_path / "other.npy", rows)
    message = refusal(trainer, with_key(spec, "data.train", str(tmp_path / "other.npy")), checkpoint, tmp_path / "other")
    assert "training data of other contents" in message and "resume with the same" in message, message


def changed_state(checkpoint: Path, folder: Path, change) -> Path:
    """Copies a checkpoint and changes its trainer.json. The copy has no checksums, like those of
    older versions."""
    shutil.copytree(checkpoint, folder)
    state = json.loads((folder / "trainer.json").read_text())
    del state["xxh3_128"]
    for file in state["files"]:
        del file["xxh3_128"]
    change(state)
    (folder / "trainer.json").write_text(json.dumps(state))
    return folder


def test_adapters_go_on_with_the_same_base_elsewhere_and_with_no_other_one(trainer, checkpoints, tokens, tmp_path):
    def with_adapters(case, base, *targets):
        return case.spec(base, tokens, method="lora", lora={"rank": 4, "targets": targets}, **written("sharded"))

    base = checkpoints["grouped_query"]
    run = train(trainer, with_adapters(FSDP_4, base, "attention"), tmp_path / "run")
    checkpoint = tmp_path / "run/checkpoints" / f"step-{MIDDLE}"
    elsewhere = with_adapters(SINGLE, shutil.copytree(base, tmp_path / "base"), "v_proj", "q_proj", "o_proj", "k_proj")
    again = resume(trainer, elsewhere, checkpoint, tmp_path / "again")
    assert_close("loss", run.losses()[MIDDLE:], again.losses(), TOLERANCE)
    other = copy_with_changed_tensor(base, tmp_path / "other", "model.layers.2.mlp.down_proj.weight",
                                     lambda tensor: tensor[-1, -1].add_(0.01))
    message = refusal(trainer, with_adapters(SINGLE, other, "attention"), checkpoint, tmp_path / "refused")
    assert "frozen weights of other values" in message and "resume with the same" in message, message


def test_a_checkpoint_of_an_older_version_goes_on(trainer, written_shuffled, tmp_path):
    def remove(state):
        del state["basis"]
        state["generators"] = [{"cpu": "00ff"}]

    spec, run, checkpoint = written_shuffled
    older = changed_state(checkpoint, tmp_path / f"step-{MIDDLE}", remove)
    again = resume(trainer, spec, older, tmp_path / "run")
    assert again.losses() == run.losses()[MIDDLE:]
    assert "did not record" in started(tmp_path / "run")["warning"]
    two_layers = copy_without_last_layer(spec["model"]["source"], tmp_path / "two_layers")
    message = refusal(trainer, with_key(spec, "model.source", str(two_layers)), older, tmp_path / "two")
    assert "holds 'model.layers.2." in message and "which the run's model lacks" in message, message


# Kill -9

# Each checkpoint takes 75 to 95 calls. These calls are in the second to the fourth checkpoint. Two
# of them are while a merged model is written.
CALLS = [100, 160, 230]


@pairwise_product(case=[SINGLE, Case("fsdp", ranks=2)], state_dict=["full", "sharded", "merged"],
                  call=CALLS)
def test_killed_run_goes_on(trainer, kill_at_call, uninterrupted, checkpoints, tokens, tmp_path,
                            case, state_dict, call):
    spec = case.spec(checkpoints["plain"], tokens, **written(state_dict, every_steps=1))
    kill_at_call(call, spec, tmp_path / "killed")
    left = names(tmp_path / "killed")
    shutil.copytree(tmp_path / "killed/checkpoints", tmp_path / "again/checkpoints")
    again = train(trainer, spec | {"resume": "auto"}, tmp_path / "again")
    resumed_from = started(tmp_path / "again")["resumed_from_step"]
    complete = [int(name.removeprefix("step-")) for name in left if "." not in name]
    assert resumed_from == max(complete), left
    assert again.losses() == uninterrupted(case, state_dict=state_dict)[0].losses()[resumed_from:]
    assert names(tmp_path / "again") == sorted(f"step-{step}" for step in range(1, STEPS + 1))


# The disk is slower than steps


def wait_for_step(step: int, folder: Path, processes: list) -> None:
    wait_for_text(f'"step":{step},"loss"', folder, processes)


@pytest.mark.parametrize("state_dict", ["full", "sharded", "merged"])
@pytest.mark.parametrize("case", [SINGLE, Case("fsdp", ranks=2), Case("ddp", ranks=2)], ids=str)
def test_training_goes_on_while_a_checkpoint_is_synced(
    trainer, held_disk, uninterrupted, checkpoints, tokens, tmp_path, case, state_dict
):
    spec = case.spec(checkpoints["plain"], tokens, **written(state_dict))
    run, folder = tmp_path / "run", tmp_path / "stopped"
    processes = held_disk.start(trainer, spec, run)
    wait_for_step(MIDDLE + 3, run, processes)
    assert names(run) == [f"step-{MIDDLE}.partial"]
    assert '"kind":"checkpoint"' not in events_file(run).read_text()
    with held_disk.released():
        wait_until_well_ended(processes, run)
    assert names(run) == sorted(f"step-{step}" for step in (MIDDLE, STEPS))
    saved = [event["step"] for event in of_kind("checkpoint", read_events(run))]
    assert saved == [MIDDLE, STEPS]
    # The checkpoint has the values of its own step, not of a later one.
    train(trainer, spec | {"train": spec["train"] | {"steps": MIDDLE}}, folder)
    assert contents(run, MIDDLE) == contents(folder, MIDDLE)
    losses = uninterrupted(case, state_dict=state_dict)[0].losses()
    assert read_run(run, case.ranks).losses() == losses


@pytest.mark.parametrize("case", [SINGLE, Case("fsdp", ranks=2)], ids=str)
def test_a_run_killed_while_a_checkpoint_is_synced_goes_on_from_the_one_before(
    trainer, held_disk, uninterrupted, checkpoints, tokens, tmp_path, case
):
    every = 3
    spec = case.spec(checkpoints["plain"], tokens, **written("sharded", every_steps=every))
    run = tmp_path / "run"
    train(trainer, spec | {"train": spec["train"] | {"steps": every}}, run)
    shutil.rmtree(run / "attempt-1")
    (run / "run.yaml").unlink()
    processes = held_disk.start(trainer, spec | {"resume": "auto"}, run)
    wait_for_step(2 * every + 1, run, processes)
    held_disk.kill()
    assert names(run) == [f"step-{every}", f"step-{2 * every}.partial"]
    shutil.copytree(run / "checkpoints", tmp_path / "again/checkpoints")
    again = train(trainer, spec | {"resume": "auto"}, tmp_path / "again")
    assert started(tmp_path / "again")["resumed_from_step"] == every
    assert again.losses() == uninterrupted(case)[0].losses()[every:]


def interrupt(trainer: Path, spec: dict, folder: Path, number: signal.Signals) -> dict:
    """Asks rank 1 to stop after some steps. Returns the last event of rank 0."""
    processes = start(trainer, spec, folder)
    wait_for_text('"kind":"step"', folder, processes, rank=1)
    processes[1].send_signal(number)
    assert wait_for(processes) == [130] * len(processes)
    return read_events(folder, ends_with="run_interrupted")[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_run_that_is_asked_to_stop_saves_and_goes_on(trainer, checkpoints, tokens, tmp_path,
                                                       number):
    spec = Case("fsdp", ranks=2).spec(checkpoints["plain"], tokens, checkpoint={"at_end": True})
    spec["train"] = {"steps": 1_000_000}
    last = interrupt(trainer, spec, tmp_path / "run", number)
    assert names(tmp_path / "run") == [f"step-{last['step']}"]
    spec["train"] = {"steps": last["step"] + 3}
    whole = train(trainer, spec, tmp_path / "whole")
    shutil.copytree(tmp_path / "run/checkpoints", tmp_path / "again/checkpoints")
    again = train(trainer, spec | {"resume": "auto"}, tmp_path / "again")
    assert again.losses() == whole.losses()[-3:]


# Full checkpoints in transformers


def logits_of(checkpoint: Path, rows: torch.Tensor) -> torch.Tensor:
    model, report = AutoModelForCausalLM.from_pretrained(checkpoint, output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        return model(rows[:, :-1]).logits.float()


def loss_of(logits: torch.Tensor, rows: torch.Tensor) -> float:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


@pytest.fixture(scope="module")
def next_rows(tokens) -> torch.Tensor:
    """The rows that the step after the checkpoint reads."""
    rows = numpy.load(tokens)[MIDDLE * TOTAL_BATCH : (MIDDLE + 1) * TOTAL_BATCH]
    return torch.from_numpy(rows.astype(numpy.int64))


@pairwise_product(variant=["plain", "grouped_query", "wide_heads", "tied", *FAMILIES],
                  case=[Case("ddp", ranks=2), Case("fsdp", ranks=3)])
def test_transformers_opens_a_full_checkpoint(uninterrupted, next_rows, case, variant):
    run, folder = uninterrupted(case, variant)
    logits = logits_of(folder / "checkpoints" / f"step-{MIDDLE}", next_rows)
    # The next step's loss was computed with these parameters.
    expected = run.losses()[MIDDLE]
    assert loss_of(logits, next_rows) == pytest.approx(expected, rel=TOLERANCE)
    single = uninterrupted(SINGLE, variant)[1] / "checkpoints" / f"step-{MIDDLE}"
    assert torch.allclose(logits, logits_of(single, next_rows), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("precision, dtype", [("bf16_true", "bfloat16"), ("bf16_mixed", "float32"),
                                              ("fp16_mixed", "float32")])
def test_weights_are_stored_as_they_are_stepped(trainer, checkpoints, tokens, tmp_path, precision,
                                                dtype):
    case = Case("fsdp", ranks=2)
    keys = written(every_steps=None, at_end=True, single_file=True) | {"precision": precision}
    train(trainer, case.spec(checkpoints["plain"], tokens, **keys), tmp_path / "run")
    assert names(tmp_path / "run") == [f"step-{STEPS}"]
    folder = tmp_path / "run/checkpoints" / f"step-{STEPS}"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert {str(value.dtype) for value in model.parameters()} == {f"torch.{dtype}"}


def test_a_full_checkpoint_is_a_source(trainer, uninterrupted, tokens, tmp_path):
    folder = uninterrupted(Case("fsdp", ranks=3))[1] / "checkpoints" / f"step-{MIDDLE}"
    spec = SINGLE.spec(folder, tokens)
    run = train(trainer, spec, tmp_path / "run")
    rows = torch.from_numpy(numpy.load(tokens)[:TOTAL_BATCH].astype(numpy.int64))
    assert run.losses()[0] == pytest.approx(loss_of(logits_of(folder, rows), rows), rel=TOLERANCE)


def test_a_random_model_gets_a_config_that_transformers_reads(trainer, tokens, next_rows, tmp_path):
    case = Case("fsdp", ranks=2)
    config = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=96, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=20, vocab_size=97, rope_theta=50000.0,
                  tie_word_embeddings=True)
    spec = case.spec("unused", tokens, **written()) | {"model": {"config": config}}
    run = train(trainer, spec, tmp_path / "run")
    logits = logits_of(tmp_path / "run/checkpoints" / f"step-{MIDDLE}", next_rows)
    expected = run.losses()[MIDDLE]
    assert loss_of(logits, next_rows) == pytest.approx(expected, rel=TOLERANCE)


# Checkpoints that are written and kept


def test_the_newest_and_the_best_stay(trainer, checkpoints, tokens, tmp_path):
    evaluation = {"every_steps": 2, "data": str(tokens), "batches": 1}
    spec = SINGLE.spec(checkpoints["plain"], tokens, evaluation=evaluation,
                       checkpoint={"every_steps": 3, "when_improved": True, "keep": 2,
                                   "state_dict": "sharded"})
    train(trainer, spec, tmp_path / "run")
    events = read_events(tmp_path / "run")
    evaluations = {e["step"]: e["loss"] for e in of_kind("evaluation", events)}
    improved = [step for step, loss in evaluations.items()
                if loss == min(l for s, l in evaluations.items() if s <= step)]
    saved = [e["step"] for e in of_kind("checkpoint", events)]
    assert saved == sorted({*improved, *range(3, STEPS + 1, 3)})
    best = min(evaluations, key=evaluations.get)
    assert names(tmp_path / "run") == sorted(f"step-{step}" for step in {best, *saved[-2:]})
