"""What `fsdp-run diverge` says of two runs. Faults are put into the files of a right run, each where a broken trainer
would leave it (tests/benchmark/breaks/ has broken trainers)."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from trainer import read_run, train

STEPS = 3
SPEC = {"model": {"config": {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64,
                             "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 1024,
                             "max_position_embeddings": 64}},
        "data": {"kind": "chess", "sequence_length": 32, "rows": "pad"},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1, "gradient_clip_norm": 1.0},
        "train": {"steps": STEPS, "warmup_steps_excluded": 0, "fingerprint_steps": ["1-9"]},
        "device": "cpu", "threads_per_rank": 1}
WAYS = {
    "single": {"strategy": {"kind": "single", "ranks": 1}, "batch": {"size_per_rank": 8}},
    "ddp": {"strategy": {"kind": "ddp", "ranks": 2}, "batch": {"size_per_rank": 4}},
    "fsdp": {"strategy": {"kind": "fsdp", "ranks": 2}, "batch": {"size_per_rank": 2, "gradient_accumulation_steps": 2},
             "activation_checkpointing": {"every": 1}},
    "4xfsdp": {"strategy": {"kind": "fsdp", "ranks": 4}, "batch": {"size_per_rank": 2}},
}


@pytest.fixture(scope="module")
def runs(trainer, tmp_path_factory) -> dict[str, Path]:
    """Returns the folders of fingerprints of right runs."""
    folder = tmp_path_factory.mktemp("runs")
    for name, way in WAYS.items():
        train(trainer, SPEC | way, folder / name)
    return {name: folder / name / "attempt-1/fingerprints" for name in WAYS}


def diverge(runner: Path, *words: Path | str, folder: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([runner, "diverge", *words], capture_output=True, text=True, cwd=folder or Path("/"))


@pytest.mark.parametrize("other", ["ddp", "fsdp"])
def test_runs_that_compute_the_same_do_not_differ(runs, runner, other):
    ended = diverge(runner, runs["single"], runs[other])
    assert ended.stdout.endswith("do not differ by more than rounding in steps 1 to 3\n")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_fingerprints_change_no_bit_and_no_memory(trainer, runs, tmp_path):
    plain = SPEC | WAYS["fsdp"] | {"train": SPEC["train"] | {"fingerprint_steps": []}}
    recorded = read_run(runs["fsdp"].parents[1], ranks=2)
    for one, other in zip(train(trainer, plain, tmp_path / "run").steps, recorded.steps, strict=True):
        for figure in ("loss", "gradient_norm", "memory_allocated_bytes_max"):
            assert [step[figure] for step in one] == [step[figure] for step in other]


class Fault:
    """A change of some fingerprints of a copy of a run."""

    def __init__(self, of: str, name: str = "", factor: float = 1, step: int = 2, rank: int | None = None,
                 row: int | None = None, lane: int = 0, state: str = ""):
        self.of, self.name, self.factor, self.step = of, name, factor, step
        self.rank, self.row, self.lane, self.state = rank, row, lane, state

    def is_of(self, one: dict) -> bool:
        return (one["of"] == self.of and self.name in one["name"] and self.state in one["state"]
                and (self.row is None or one["row"] == self.row))

    def put_into(self, folder: Path) -> None:
        changed = 0
        for file in folder.glob(f"step-{self.step}.rank{'*' if self.rank is None else self.rank}.jsonl"):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            for one in lines[1:-1]:
                if self.is_of(one):
                    changed += 1
                    one["square_sum"] *= self.factor**2
                    for lane in range(self.lane, 8):
                        one["projections"][lane] *= self.factor
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert changed > 0


DOWN = "model.layers.1.mlp.down_proj.weight"
EMBEDDING = "model.embed_tokens.weight"
# The run, the changes, and the words about the place and the cause.
FAULTS = [
    ("ddp", [Fault("labels", factor=2, row=1)], "the labels of a row", "other labels"),
    ("fsdp", [Fault("weight", DOWN, 1.5, step=1), Fault("new_weight", DOWN, 1.5, step=1)],
     f"the weight of {DOWN} at the step's begin", "begin with other weights"),
    ("fsdp", [Fault("state", DOWN, 0, state="exp_avg")], f"exp_avg of {DOWN} at the step's begin",
     "does not begin with what the step before has left: a resume"),
    ("fsdp", [Fault("forward_weight", DOWN, 1.1, rank=1)], f"the weight of {DOWN} that forward reads",
     "computes with other weights than its ranks own"),
    ("single", [Fault("activation", "model.layers.1", 1.1, lane=4)], "the output of model.layers.1 in forward",
     "another mask, or other positions"),
    ("ddp", [Fault("activation", "model.layers.0", -1, rank=1)], "the output of model.layers.0 in forward",
     "only some ranks of"),
    ("ddp", [Fault("loss", factor=2)], "the loss\n", "a constant factor"),
    ("ddp", [Fault("loss", factor=1.1)], "the loss\n", "the divisor of the loss"),
    ("fsdp", [Fault("repeated_input", "model.layers.1", 2)], "the input of model.layers.1 in the repeated forward",
     "recomputation"),
    ("ddp", [Fault("activation_gradient", "model.layers.0", 2)], "the gradient of the output of model.layers.0",
     "a constant factor"),
    ("fsdp", [Fault("local_gradient", DOWN, 3)], f"the gradient of {DOWN} before its reduction", "a constant factor"),
    ("ddp", [Fault("gradient", DOWN, 0.5)], f"the gradient of {DOWN} after its reduction", "takes a sum for a mean"),
    ("ddp", [Fault("gradient", DOWN, 0.7, rank=1)], f"the gradient of {DOWN} after its reduction",
     "the reduction is missing"),
    ("fsdp", [Fault("gradient_norm", factor=0.7, rank=1)], "the gradient norm", "a norm over a part of the gradients"),
    ("ddp", [Fault("clip_divisor", factor=1.5)], "the divisor that clips gradients", "another divisor"),
    ("ddp", [Fault("new_state", DOWN, 1.5, step=3, state="exp_avg_sq")], f"exp_avg_sq of {DOWN} after the step",
     "its betas"),
    ("ddp", [Fault("new_weight", DOWN, 1.001, step=3)], f"the update of {DOWN}", "weight decay"),
]


@pytest.mark.parametrize("way, faults, place, cause", FAULTS)
def test_the_first_difference_is_named_with_its_cause(runs, runner, tmp_path, way, faults, place, cause):
    wrong = tmp_path / "wrong"
    shutil.copytree(runs[way], wrong)
    for fault in faults:
        fault.put_into(wrong)
    answer = diverge(runner, runs["single"], "wrong", folder=tmp_path).stdout
    assert f"differ from step {faults[0].step} on:\n" in answer
    assert f"  first  {place}" in answer, answer
    assert cause in answer.split("  cause  ")[1], answer


@pytest.mark.parametrize("right", ["single", "ddp", "fsdp"])
@pytest.mark.parametrize("is_wrong_first", [False, True])
def test_the_order_of_the_runs_and_their_ranks_do_not_matter(runs, runner, tmp_path, right, is_wrong_first):
    wrong = tmp_path / "wrong"
    shutil.copytree(runs["ddp"], wrong)
    Fault("activation", "model.embed_tokens", 1.01, rank=1).put_into(wrong)
    Fault("activation", "model.layers.1", 1.5, rank=0).put_into(wrong)
    words = [runs[right], "wrong"]
    answer = diverge(runner, *(reversed(words) if is_wrong_first else words), folder=tmp_path).stdout
    assert "  first  the output of model.embed_tokens in forward\n" in answer
    assert "  where  4 of 8 rows; rows 4, 5, 6, 7; ranks 1" in answer
    # Another run of two ranks has the same rows on rank 1.
    assert f"only some ranks of {'wrong' if right == 'single' else 'one run'} compute it" in answer


@pytest.mark.parametrize("is_wrong_first", [False, True])
def test_the_run_is_named_of_which_a_whole_rank_differs(runs, runner, tmp_path, is_wrong_first):
    shutil.copytree(runs["4xfsdp"], tmp_path / "wrong")
    Fault("activation", "model.layers.0", -1, rank=3).put_into(tmp_path / "wrong")
    words = [runs["ddp"], "wrong"]
    answer = diverge(runner, *(reversed(words) if is_wrong_first else words), folder=tmp_path).stdout
    assert "  where  2 of 8 rows; rows 6, 7; ranks 3 of wrong\n" in answer
    assert "only some ranks of wrong compute it" in answer


@pytest.mark.parametrize("of, factor", [("activation", 2), ("loss", 2), ("forward_weight", 1.8), ("clip_divisor", 2)])
def test_in_16_bits_a_factor_of_two_is_no_rounding(trainer, runner, tmp_path, of, factor):
    for way in ("single", "ddp"):
        train(trainer, SPEC | WAYS[way] | {"precision": "bf16_true"}, tmp_path / way)
    right, wrong = (tmp_path / way / "attempt-1/fingerprints" for way in ("single", "ddp"))
    assert "do not differ" in diverge(runner, right, wrong).stdout
    Fault(of, "" if of in ("loss", "clip_divisor") else "model.layers.1", factor).put_into(wrong)
    assert "differ from step 2 on" in diverge(runner, right, wrong).stdout


@pytest.mark.parametrize("precision, answer", [("fp32", "do not differ"), ("fp64", "differ from step 2 on")])
def test_fp64_shows_a_fault_below_the_rounding_of_fp32(trainer, runner, tmp_path, precision, answer):
    for way in ("single", "fsdp"):
        train(trainer, SPEC | WAYS[way] | {"precision": precision}, tmp_path / way)
    right, wrong = (tmp_path / way / "attempt-1/fingerprints" for way in ("single", "fsdp"))
    assert "do not differ" in diverge(runner, right, wrong).stdout
    Fault("activation", "model.layers.1", 1 + 1e-7).put_into(wrong)
    assert answer in diverge(runner, right, wrong).stdout


@pytest.mark.parametrize("of", ["activation", "gradient"])
@pytest.mark.parametrize("is_wrong_first", [False, True])
def test_a_run_that_is_not_finite_is_named(runs, runner, tmp_path, of, is_wrong_first):
    shutil.copytree(runs["ddp"], tmp_path / "wrong")
    for file in (tmp_path / "wrong").glob("step-2.*"):
        file.write_text("".join(
            line.replace('"is_finite":true', '"is_finite":false') if f'"of":"{of}"' in line else line
            for line in file.read_text().splitlines(keepends=True)))
    words = [runs["single"], "wrong"]
    answer = diverge(runner, *(reversed(words) if is_wrong_first else words), folder=tmp_path).stdout
    assert "cause  wrong has NaN or infinity\n" in answer, answer


def of_quantities(*quantities: str):
    return lambda line: any(f'"of":"{of}"' in line for of in quantities)


def rewrite(folder: Path, step: int, change) -> None:
    """Replaces each fingerprint of a step by what `change` returns for it; None leaves it out."""
    for file in folder.glob(f"step-{step}.*"):
        first, *lines, _ = file.read_text().splitlines(keepends=True)
        lines = [changed for line in lines if (changed := change(line)) is not None]
        file.write_text(first + "".join(lines) + json.dumps({"fingerprints": len(lines)}) + "\n")


def test_what_only_one_run_has_of_a_later_step_is_told(runs, runner, tmp_path):
    wrong = tmp_path / "wrong"
    shutil.copytree(runs["ddp"], wrong)
    is_lost = of_quantities("activation", "gradient")
    rewrite(wrong, 2, lambda line: None if is_lost(line) else line)
    told = f"  not compared, because only {runs['single']} has all of it: "
    answer = diverge(runner, runs["single"], "wrong", folder=tmp_path).stdout
    assert answer.endswith(f"in steps 1 to 3\n{told}activation, gradient\n")
    Fault("loss", factor=2).put_into(wrong)  # what comes later explains no difference
    answer = diverge(runner, runs["single"], "wrong", folder=tmp_path).stdout
    assert "  first  the loss\n" in answer and answer.endswith(f"\n{told}activation\n")


def test_what_is_not_finite_in_both_runs_is_told(runs, runner, tmp_path):
    is_lost = of_quantities("activation", "loss")
    for name in ("single", "ddp"):
        shutil.copytree(runs[name], tmp_path / name)
        rewrite(tmp_path / name, 2, lambda line: line.replace('"is_finite":true', '"is_finite":false')
                if is_lost(line) else line)
    answer = diverge(runner, "single", "ddp", folder=tmp_path).stdout
    assert answer.endswith("  not compared, because it is NaN or infinite in both: activation, loss\n")


def test_parts_that_are_no_whole_tensor_are_refused(runs, runner, tmp_path):
    shutil.copytree(runs["fsdp"], tmp_path / "wrong")
    rewrite(tmp_path / "wrong", 2, lambda line: None
            if of_quantities("new_weight")(line) and EMBEDDING in line and '"begin":0' in line else line)
    ended = diverge(runner, runs["single"], "wrong", folder=tmp_path)
    assert ended.returncode != 0 and ended.stdout == ""
    assert f"the new_weight of '{EMBEDDING}' has elements up to 0, and then from 1" in ended.stderr


def test_the_name_of_a_tensor_forges_no_line(runs, runner, tmp_path):
    for name in ("single", "ddp"):
        shutil.copytree(runs[name], tmp_path / name)
        for file in (tmp_path / name).iterdir():
            replaced('"name":"model.norm.weight"', '"name":"a\\n  cause  all is well"')(file)
    Fault("gradient", "all is well", 0.5).put_into(tmp_path / "ddp")
    answer = diverge(runner, "single", "ddp", folder=tmp_path).stdout
    assert "  first  the gradient of a\\n  cause  all is well after its reduction\n" in answer, answer


def cut(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def replaced(old: str, new: str):
    return lambda file: file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("damage, words", [
    (cut, ["step-1.rank1.jsonl:", "not what fsdp-train writes there: 'fingerprints': is missing"]),
    (lambda file: file.write_text(file.read_text()[:-30]), ["the file is cut short; record the step again"]),
    (replaced('"version":1', '"version":2'), ["version 2 of fingerprints; this fsdp-run reads version 1"]),
    (replaced('"step":1', '"step":4'), ["it says step 4, rank 1 of 2"]),
    (replaced('"ranks":2', '"ranks":3'), ["its first line differs from that of rank 0"]),
    (replaced('"sum":', '"sum":"x",'), ["not what fsdp-train writes there"]),
    (replaced('"projections":[', '"projections":[1,'), ["not 8 projections"]),
    (Path.unlink, ["step-1.rank1.jsonl is missing; record step 1 again, on every rank"]),
    (lambda file: file.write_bytes(b"\xff\0" * 100), ["the file is cut short"]),
])
def test_files_that_are_not_whole_are_refused(runs, runner, tmp_path, damage, words):
    shutil.copytree(runs["ddp"], tmp_path / "wrong")
    damage(tmp_path / "wrong/step-1.rank1.jsonl")
    ended = diverge(runner, runs["single"], "wrong", folder=tmp_path)
    assert ended.returncode != 0 and ended.stdout == ""
    assert all(word in ended.stderr for word in words), ended.stderr


def test_tensors_of_other_names_are_refused_with_both(runs, runner, tmp_path):
    shutil.copytree(runs["ddp"], tmp_path / "wrong")
    for file in (tmp_path / "wrong").iterdir():
        replaced('"name":"', '"name":"another.')(file)
    ended = diverge(runner, runs["single"], "wrong", folder=tmp_path)
    assert ended.returncode != 0
    assert "'model.embed_tokens.weight' and 'another.model.embed_tokens.weight'" in ended.stderr


EXPERIMENT = """\
experiment: lab
base:
  model: {config: {num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64, num_attention_heads: 2,
                   num_key_value_heads: 1, vocab_size: 1024, max_position_embeddings: 64}}
  data: {kind: chess, sequence_length: 32, rows: pad}
  schedule: {kind: cosine, warmup_steps: 1}
  train: {steps: 6, report_gradient_norm: true}
  evaluation: {fraction: 0.2, every_steps: 2}
  checkpoint: {every_steps: 2}
  precision: {parameters: fp32, reduction: fp32}
  threads_per_rank: 1
  device: cpu
points:
  - {name: 1 CPU, strategy: {kind: single}, batch.size_per_rank: 4}
  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2}, batch.size_per_rank: 2}
  - {name: "wrapped: #1", strategy: {kind: single, wrap: {blocks: 2}}, batch.size_per_rank: 4}
  - {name: faster, strategy: {kind: single}, batch.size_per_rank: 4, optimizer.learning_rate: 0.01}
"""


@pytest.fixture(scope="module")
def lab(runner, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "lab.yaml").write_text(EXPERIMENT)
    subprocess.run([runner, "lab.yaml", "--quiet"], cwd=folder, capture_output=True, check=True)
    return folder


def test_runs_are_trained_again_beside_the_results(lab, runner):
    before = subprocess.run([runner, "report", "--format", "json"], cwd=lab, capture_output=True).stdout
    ended = diverge(runner, "lab/1 CPU", "lab/2xFSDP", folder=lab)
    assert ended.stdout == '1 CPU and 2xFSDP do not differ by more than rounding in steps 1 to 2\n'
    assert "trains again, with fingerprints of steps 1-2" in ended.stderr
    [events] = (lab / "results/diverge").glob("runs/*/*2xFSDP*/attempt-1/events.rank0.jsonl")
    again = [json.loads(line) for line in events.read_text().splitlines()]
    [earlier] = (lab / "results").glob("runs/lab/2xFSDP*/attempt-1/events.rank0.jsonl")
    first = [json.loads(line) for line in earlier.read_text().splitlines()]
    figures = [[(event["loss"], event["learning_rate"]) for event in events if event["kind"] == "step"]
               for events in (again, first)]
    assert figures[0] == figures[1][:2]
    assert {event["kind"] for event in again}.isdisjoint({"evaluation", "checkpoint"})
    assert subprocess.run([runner, "report", "--format", "json"], cwd=lab, capture_output=True).stdout == before


def test_a_step_after_the_first_ones_is_reached(lab, runner):
    ended = diverge(runner, "lab/1 CPU", "lab/2xFSDP", "--step", "5", folder=lab)
    assert ended.stdout.endswith("in steps 1 to 5\n")


def test_a_late_step_is_reached_from_the_checkpoints(runner, tmp_path):
    text = EXPERIMENT.replace("steps: 6", "steps: 14").replace("checkpoint: {every_steps: 2}",
                                                               "checkpoint: {every_steps: 3}")
    (tmp_path / "lab.yaml").write_text(text)
    subprocess.run([runner, "lab.yaml", "--quiet", "--only", "1 CPU,2xFSDP"], cwd=tmp_path, capture_output=True,
                   check=True)
    ended = diverge(runner, "1 CPU", "2xFSDP", "--step", "13", folder=tmp_path)
    assert ended.stdout.endswith("do not differ by more than rounding in steps 4 to 13\n"), ended.stderr
    [again] = (tmp_path / "results/diverge").glob("runs/*/*2xFSDP*")
    [first] = (tmp_path / "results").glob("runs/lab/2xFSDP*")
    losses = [[(step["step"], step["loss"]) for step in read_run(run, ranks=2).steps[0]] for run in (again, first)]
    assert losses[0] == losses[1][3:13]


def test_runs_are_trained_again_in_fp64(lab, runner, tmp_path):
    ended = diverge(runner, "lab/1 CPU", "lab/2xFSDP", "--fp64", folder=lab)
    assert ended.stdout == ("1 CPU and 2xFSDP do not differ by more than rounding in steps 1 to 2\n"
                            "  fp64   both were trained in it, so other differences are rounding\n"), ended.stderr
    [recorded] = (lab / "results/diverge").glob("runs/*-fp64*/*2xFSDP*/attempt-1/fingerprints/step-2.rank1.jsonl")
    assert set(json.loads(recorded.read_text().splitlines()[0])["roundoff"].values()) == {2**-53}
    assert "both must be runs of these results" in diverge(runner, "lab/1 CPU", recorded.parent, "--fp64",
                                                           folder=lab).stderr


def test_runs_with_keys_that_exclude_their_defaults_are_trained_again(lab, runner):
    ended = diverge(runner, "lab/1 CPU", "lab/wrapped: #1", folder=lab)
    assert ended.stdout.endswith("do not differ by more than rounding in steps 1 to 2\n"), ended.stderr


def test_points_of_equal_names_are_compared_and_a_run_with_itself_is_not(lab, runner):
    (lab / "lab2.yaml").write_text(EXPERIMENT.replace("experiment: lab", "experiment: lab2")
                                   .replace("account_steps", "").replace("steps: 6", "steps: 6, trace_steps: 1"))
    subprocess.run([runner, "lab2.yaml", "--quiet", "--only", "2xFSDP"], cwd=lab, capture_output=True, check=True)
    ended = diverge(runner, "lab/2xFSDP", "lab2/2xFSDP", folder=lab)
    assert "(lab/2xFSDP," in ended.stdout and "do not differ" in ended.stdout, ended.stderr
    assert "is the same run" in diverge(runner, "lab/1 CPU", "lab/1 CPU", folder=lab).stderr


def test_a_run_that_cannot_be_trained_again_is_not_compared(lab, runner, tmp_path):
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    ended = diverge(runner, "lab/1 CPU", "lab/2xFSDP", "--step", "4", "--trainer", tmp_path / "broken", folder=lab)
    assert ended.returncode != 0 and ended.stdout == ""
    assert "nothing is compared, because a run did not end" in ended.stderr


def test_runs_that_do_not_compute_the_same_are_refused_with_the_key(lab, runner):
    ended = diverge(runner, "lab/1 CPU", "lab/faster", folder=lab)
    assert ended.returncode != 0 and ended.stdout == ""
    assert "do not compute the same: other optimizer.learning_rate" in ended.stderr


def test_words_that_name_nothing_are_refused(lab, runner, tmp_path):
    assert "names no run" in diverge(runner, "lab/1 CPU", "nothing", folder=lab).stderr
    assert "is no folder of fingerprints" in diverge(runner, "one", "other", folder=tmp_path).stderr
