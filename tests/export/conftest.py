import os
import shutil
import sqlite3
import subprocess

import pytest

EXPERIMENT = """
experiment: trial, first
base: {device: cpu, train.steps: 6, evaluation: {every_steps: 2, fraction: 0.2}}
points:
  - {name: "3 × ddp", strategy: {kind: ddp, ranks: 3}, checkpoint.every_steps: 3,
     wandb: {entity: a team, log_model: true}}
  - {name: resumed, resume: auto, checkpoint.every_steps: 2}
  - {name: 'said "no", and ended', train.steps: 7}
"""
NOT_RUN = "  - {name: not run, train.steps: 8}\n"


class Workplace:
    """A results folder of the stub trainer's runs, and its exports."""

    def __init__(self, folder, runner, trainer):
        self.folder = folder
        self.runner = runner
        file = folder / "experiment.yaml"
        file.write_text(EXPERIMENT)
        # The first call interrupts `resumed` in its 4th step, and fails the last point.
        rules = {"STUB_RULES": "point=resumed,step=4,kill=15; point=said,step=3,fail=a \"reason\""}
        assert self.call(file, "--trainer", trainer, environment=rules).returncode == 1
        assert self.call(file, "--trainer", trainer, "--only", "resumed").returncode == 0
        file.write_text(EXPERIMENT + NOT_RUN)
        self.call(file, "--trainer", trainer, "--only", "resumed")
        self.add_what_the_stub_does_not_report()

    def call(self, *arguments, environment=None):
        return subprocess.run([self.runner, *arguments], cwd=self.folder, text=True,
                              capture_output=True,
                              env={**os.environ, "TMPDIR": str(self.folder),
                                   **(environment or {})})

    def add_what_the_stub_does_not_report(self):
        with self.database() as database:
            for attempt, time in database.execute(
                    "select attempt, max(time_unix_ms) from steps where run = 1 and rank = 0"):
                for sequence, (device, power) in enumerate([("gpu:0", 300.125), ("cpu", None)]):
                    database.execute(
                        "insert into device_samples (run, attempt, rank, sequence, time_unix_ms, "
                        "host, device, device_name, utilization_percent, memory_used_bytes, "
                        "power_watts) values (1, ?, 0, ?, ?, 'node', ?, 'a, \"b\"', 12.5, 99, ?)",
                        (attempt, 1000 + sequence, time + 1, device, power))
            database.execute("update steps set gradient_norm = step / 7.0, "
                             "communication_time_ms = rank + 0.1, loss = loss / 3, "
                             "step_time_ms = step_time_ms + rank / 3.0")
            database.execute("update steps set loss = null, non_finite = 1 where run = 1 and step = 5")

    def database(self, results=None):
        database = sqlite3.connect((results or self.folder / "results") / "results.sqlite")
        database.row_factory = sqlite3.Row
        return database

    def rows(self, sql, *values, place=None):
        with self.database(place) as database:
            return [dict(row) for row in database.execute(sql, values)]

    def export(self, name, *arguments, environment=None):
        """Exports to the folder `name`, which is removed first. Returns the folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        done = self.call("export", "--to", name, *arguments, environment=environment)
        assert (done.returncode, done.stderr) == (0, "")
        return folder

    def run_folder(self, export, run):
        [hash8] = [row["hash8"] for row in self.rows("select * from comparison where run = ?", run)]
        [folder] = export.glob(f"*/*-{hash8}")
        return folder


@pytest.fixture(scope="session")
def workplace(runner, stub_trainer, tmp_path_factory):
    return Workplace(tmp_path_factory.mktemp("workplace"), runner, stub_trainer)


@pytest.fixture
def checkpoint(workplace):
    """The newest complete checkpoint of run 1, which has `log_model`."""
    [run] = workplace.rows("select folder from comparison where run = 1")
    checkpoints = workplace.folder / "results" / run["folder"] / "checkpoints"
    assert sorted(folder.name for folder in checkpoints.iterdir()) == ["step-3", "step-6"]
    state = checkpoints / "step-3" / "trainer.json"  # step-6 is not complete
    state.write_text("{}")
    yield state.parent
    state.unlink()
