"""A folder with an experiment, run on a cluster by the built programs."""
import json
import os
import sqlite3
import subprocess
from pathlib import Path

PATIENCE_S = 120


class Workplace:
    def __init__(self, folder, cluster, experiment, runner, trainer, stub_trainer):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.file = self.folder / "experiment.yaml"
        self.file.write_text(experiment)
        self.cluster = cluster
        self.runner = runner
        self.trainer = trainer
        self.stub_trainer = stub_trainer
        self.results = self.folder / "results"
        self._started = []

    def start(self, *arguments, **environment):
        """fsdp-run with these arguments, not waited for."""
        self._started.append(subprocess.Popen(
            [self.runner, *map(str, arguments)], cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **self.cluster.environment, **environment}))
        return self._started[-1]

    def call(self, *arguments, **environment):
        """What it printed, when it has ended: .stdout, .stderr, .returncode."""
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def end(self):
        for process in self._started:
            process.kill()
            process.communicate()

    def query(self, sql, *values):
        with sqlite3.connect(f"file:{self.results}/results.sqlite?mode=ro", uri=True) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def attempts(self):
        """point -> its attempts' statuses, in order."""
        attempts = {}
        for row in self.query("select point, status from attempts join runs on run = runs.id "
                              "order by run, attempt"):
            attempts.setdefault(row["point"], []).append(row["status"])
        return attempts

    def losses(self):
        """point -> its losses by step, of whichever attempt came further last."""
        losses = {}
        for row in self.query("select point, step, loss from steps join runs on run = runs.id "
                              "where rank = 0 order by attempt, step"):
            losses.setdefault(row["point"], {})[row["step"]] = row["loss"]
        return losses

    def records(self, name):
        """All launch.json or end.json of attempts, by run folder and attempt."""
        return {(file.parent.parent.name, file.parent.name): json.loads(file.read_text())
                for file in self.results.glob(f"runs/*/*/attempt-*/{name}")}
