"""wandb: a fake Weights & Biases module records the calls of upload.py."""

import json
import os
import subprocess
import sys

import pytest

FAKE = '''
import contextlib, json, os

class Run:
    def __init__(self, calls):
        self.calls = calls
    def define_metric(self, name, step_metric):
        self.calls.append(["define_metric", name, step_metric])
    def log(self, data):
        self.calls.append(["log", data])
    def log_model(self, path, name):
        self.calls.append(["log_model", path, name])

@contextlib.contextmanager
def init(**arguments):
    calls = [["init", arguments]]
    yield Run(calls)
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(calls) + "\\n")
'''
NO_NAMES = {"WANDB_ENTITY": "", "WANDB_PROJECT": ""}


def upload(folder, tmp_path):
    """Runs upload.py. Returns the calls of each run, by the run's name."""
    (tmp_path / "wandb.py").write_text(FAKE)
    calls = tmp_path / "calls"
    subprocess.run([sys.executable, folder / "upload.py"], cwd=tmp_path, check=True,
                   env={**os.environ, "PYTHONPATH": str(tmp_path), "CALLS": str(calls)})
    runs = [json.loads(line) for line in calls.read_text().splitlines()]
    return {run[0][1]["name"]: run for run in runs}


@pytest.fixture
def exported(workplace):
    return workplace.export("wandb", "--format", "wandb", environment=NO_NAMES)


def test_every_run_is_sent_with_its_specification_and_its_curves(workplace, exported, tmp_path):
    sent = upload(exported, tmp_path)
    assert sorted(sent) == ["3 × ddp", "resumed", 'said "no", and ended']
    calls = sent["3 × ddp"]
    init = calls[0][1]
    [row] = workplace.rows("select * from comparison where run = 1")
    assert init["entity"] == "a team"
    assert init["group"] == "trial, first" and init["project"] == "trial-first"
    assert init["id"] == f"{row['hash8']}-{row['started_unix_ms']}" and init["resume"] == "never"
    assert init["config"]["strategy"]["ranks"] == 3
    assert init["config"]["comparison"]["tokens_per_second"] == row["tokens_per_second"]
    assert calls[1] == ["define_metric", "*", "step"]

    logged = [call[1] for call in calls if call[0] == "log"]
    steps = workplace.rows("select step, max(step_time_ms) as time, min(loss) as loss from steps "
                           "where run = 1 group by step order by step")
    assert [(line["step"], line["time/step_time_ms"], line.get("train/loss"))
            for line in logged if "time/step_time_ms" in line] == [
        (row["step"], row["time"], row["loss"]) for row in steps]
    assert [line["step"] for line in logged if "validation/loss" in line] == [2, 4, 6]
    [power] = [line for line in logged if "device/gpu:0/power_watts" in line]
    assert power["step"] == 6 and power["device/gpu:0/power_watts"] == 300.125


def test_names_come_from_the_specification_then_from_the_environment(workplace, tmp_path):
    folder = workplace.export("named", "--format", "wandb",
                              environment={"WANDB_ENTITY": "class", "WANDB_PROJECT": "2026"})
    sent = {name: calls[0][1] for name, calls in upload(folder, tmp_path).items()}
    assert sent["3 × ddp"]["entity"] == "a team"
    assert sent["resumed"]["entity"] == "class"
    assert {init["project"] for init in sent.values()} == {"2026"}


def test_no_entity_is_made_up(exported, tmp_path):
    assert "entity" not in upload(exported, tmp_path)["resumed"][0][1]


def test_the_newest_complete_checkpoint_is_sent_where_it_was_asked_for(workplace, checkpoint, tmp_path):
    sent = upload(workplace.export("models", "--format", "wandb"), tmp_path)
    [model] = [call for call in sent["3 × ddp"] if call[0] == "log_model"]
    assert model[1] == str(checkpoint)
    assert not [call for call in sent["resumed"] if call[0] == "log_model"]
