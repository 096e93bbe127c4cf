"""trackio: upload.py stores the runs with Trackio. They are read from its SQLite database."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from curves import curves, summaries

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "cmake/wheels/trackio.txt"


@pytest.fixture(scope="session")
def trackio():
    """The folder with Trackio's wheels. .venv has another pillow."""
    folder = ROOT / "build/trackio"
    complete = folder / "wheels.txt"
    if not complete.exists() or complete.read_text() != WHEELS.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--target", folder,
                        "--requirement", WHEELS], check=True)
        shutil.copy(WHEELS, complete)
    return folder


class Place:
    def __init__(self, folder, wheels):
        self.folder = folder
        self.wheels = wheels

    def upload(self, export):
        done = subprocess.run([sys.executable, export / "upload.py"], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(self.wheels), "TRACKIO_DIR": str(self.folder),
                                   "HF_HUB_OFFLINE": "1"})
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def rows(self, sql):
        with sqlite3.connect(self.folder / "trial-first.db") as database:
            return database.execute(sql).fetchall()

    def curves(self, run):
        found = {}
        for name, step, metrics in self.rows("select run_name, step, metrics from metrics"):
            for metric, value in json.loads(metrics).items() if name == run else ():
                if metric != "time_unix_ms":
                    found.setdefault(metric, []).append((step, value))
        return {name: sorted(points) for name, points in found.items()}


@pytest.fixture(scope="module")
def export(workplace):
    return workplace.export("trackio", "--format", "trackio")


@pytest.fixture(scope="module")
def place(export, trackio, tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("trackio"), trackio)
    place.upload(export)
    return place


def name_of(summary):
    return f"{summary['point']} {summary['hash8']}-{summary['started_unix_ms']}"


def test_every_run_has_its_settings_its_figures_and_its_curves(workplace, place):
    csv = workplace.export("csv")
    configs = {name: json.loads(config) for name, config in place.rows("select run_name, config from configs")}
    sent = {number: summary for number, summary in summaries(csv).items() if summary["attempt"]}
    assert sorted(configs) == sorted(map(name_of, sent.values())) and len(sent) == 3
    for number, summary in sent.items():
        expected = curves(workplace.run_folder(csv, number))
        assert len(expected) >= 9 and place.curves(name_of(summary)) == expected
        config = configs[name_of(summary)]
        assert json.loads(summary["spec"]).items() <= config.items()
        comparison = config["comparison"]
        for name in ("tokens_per_second", "memory_allocated_bytes_max", "loss_last", "ranks"):
            assert comparison[name] == float(summary[name])
        assert comparison["status"] == summary["status"] and config["_Group"] == "trial, first"


def test_a_second_upload_sends_nothing(place, export):
    before = place.rows("select * from metrics")
    assert place.upload(export).count("Trackio already has this run.") == 3
    assert place.rows("select * from metrics") == before and before


def test_the_machine_that_uploads_is_not_measured(workplace, trackio, tmp_path):
    said = Place(tmp_path, trackio).upload(workplace.export("trackio-one", "--format", "trackio", "resumed"))
    assert "Created new run" in said and "automatic" not in said


def test_a_run_that_ended_before_its_first_step_is_there(workplace, trackio, tmp_path):
    export = workplace.export("trackio-empty", "--format", "trackio", "resumed")
    (workplace.run_folder(export, 2) / "history.jsonl").write_text("")
    place = Place(tmp_path, trackio)
    place.upload(export)
    [[config]] = place.rows("select config from configs")
    assert json.loads(config)["comparison"]["point"] == "resumed"
    assert "already has this run" in place.upload(export)


def test_a_checkpoint_is_sent_where_it_was_asked_for(workplace, checkpoint, trackio, tmp_path):
    place = Place(tmp_path, trackio)
    place.upload(workplace.export("trackio-model", "--format", "trackio", "3 × ddp", "resumed"))
    [[name, kind]] = place.rows("select name, type from artifacts")
    [hash8] = [row["hash8"] for row in workplace.rows("select hash8 from comparison where run = 1")]
    assert name.startswith(hash8) and kind == "model"
