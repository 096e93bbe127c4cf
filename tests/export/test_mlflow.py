"""mlflow: upload.py sends the runs into a SQLite store, and MLflow's client reads them from there."""

import os
import subprocess
import sys

import pytest
from curves import curves, settings, summaries
from mlflow import MlflowClient


class Place:
    def __init__(self, folder):
        self.folder = folder
        self.store = f"sqlite:///{folder}/mlflow.db"
        self.client = MlflowClient(self.store)

    def upload(self, export):
        done = subprocess.run([sys.executable, export / "upload.py"], cwd=self.folder, text=True, capture_output=True,
                              env={**os.environ, "MLFLOW_TRACKING_URI": self.store, "MLFLOW_DISABLE_TELEMETRY": "true"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs(self):
        experiment = self.client.get_experiment_by_name("trial-first")
        found = self.client.search_runs([experiment.experiment_id])
        runs = {run.info.run_name: run for run in found}
        assert len(runs) == len(found)
        return runs

    def curves(self, run, names):
        return {name: sorted((metric.step, metric.value)
                             for metric in self.client.get_metric_history(run.info.run_id, name)) for name in names}


@pytest.fixture(scope="module")
def export(workplace):
    return workplace.export("mlflow", "--format", "mlflow")


@pytest.fixture(scope="module")
def place(export, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("mlflow"))
    place.upload(export)
    return place


def test_every_run_has_its_settings_its_figures_and_its_curves(workplace, place):
    csv = workplace.export("csv")
    sent = place.runs()
    assert sorted(sent) == ["3 × ddp", "resumed", 'said "no", and ended']
    for number, summary in summaries(csv).items():
        if not summary["attempt"]:
            continue
        run = sent[summary["point"]]
        expected = curves(workplace.run_folder(csv, number))
        assert len(expected) >= 9 and place.curves(run, expected) == expected
        figures = {name.removeprefix("comparison."): value
                   for name, value in run.data.metrics.items() if name not in expected}
        assert figures == {name: float(summary[name]) for name in figures}
        assert {"tokens_per_second", "memory_allocated_bytes_max", "loss_last", "ranks"} <= set(figures)
        set_to = {name: str(value) for name, value in settings(summary).items()}
        assert len(set_to) > 100 and set_to.items() <= run.data.params.items()
        assert run.data.params["comparison.status"] == summary["status"]
        assert run.info.status == {"finished": "FINISHED", "failed": "FAILED"}[summary["status"]]
        assert run.info.start_time == int(summary["started_unix_ms"])


def test_a_second_upload_sends_nothing(place, export):
    before = {name: run.info.run_id for name, run in place.runs().items()}
    assert place.upload(export).count("MLflow already has this run.") == 3
    assert {name: run.info.run_id for name, run in place.runs().items()} == before


def test_a_run_that_was_sent_before_its_end_is_sent_again(workplace, place, export):
    facts = workplace.run_folder(export, 2) / "facts.json"
    whole = facts.read_text()
    before = place.runs()["resumed"]
    place.client.delete_run(before.info.run_id)
    facts.write_text(whole.replace('"status": "finished"', '"status": "running"'))
    place.upload(export)
    assert place.runs()["resumed"].info.status == "RUNNING"
    facts.write_text(whole)
    place.upload(export)
    after = place.runs()
    assert len(after) == 3 and after["resumed"].info.status == "FINISHED"
    assert after["resumed"].data.metrics == before.data.metrics


def test_a_checkpoint_is_sent_where_it_was_asked_for(workplace, place, checkpoint):
    for run in place.runs().values():
        place.client.delete_run(run.info.run_id)
    place.upload(workplace.export("mlflow-model", "--format", "mlflow", "3 × ddp"))
    [file] = place.client.list_artifacts(place.runs()["3 × ddp"].info.run_id, "checkpoint")
    assert file.path == "checkpoint/trainer.json"
