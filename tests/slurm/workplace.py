"""A folder with an experiment, run on a cluster by the built programs."""
import itertools
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
import yaml
from cluster import Cluster
from few_games import few_games
from host_processes import processes, program_of, state_of
from waiting import LIMIT_S

MODES = ("per_run", "allocation")
HOLDS = "holds"  # a folder, see Workplace.let_wait
LOCAL_LOSSES = {}  # kept for all tests of this process
modes = pytest.mark.parametrize("mode", MODES)

# A model for the real trainer: 2 layers that any machine trains in milliseconds a step.
TINY = """device: cpu, threads_per_rank: 1, resume: auto, train.warmup_steps_excluded: 0,
  data.sequence_length: 16, batch.size_per_rank: 1,
  model.config: {num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64,
    num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 1024}"""


def experiment(points, base, slurm="time: 10"):
    """Returns the text of an experiment named trial. `base` and `slurm` are the texts between the
    braces."""
    lines = "".join(f"  - {point}\n" for point in points)
    return f"experiment: trial\nbase: {{{base}, data.train: {few_games()}, slurm: {{{slurm}}}}}\npoints:\n{lines}"


class Workplace:
    def __init__(self, folder, cluster, text, runner, trainer, stub_trainer):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.file = self.folder / "experiment.yaml"
        self.file.write_text(text)
        self.cluster = cluster
        self.runner = runner
        self.trainer = trainer
        self.stub_trainer = stub_trainer
        self.results = self.folder / "results"
        self._started = []

    # --- the runner ---

    def start(self, *arguments, **environment):
        """Starts fsdp-run with these arguments, and does not wait for it."""
        self._started.append(subprocess.Popen(
            [self.runner, *map(str, arguments)], cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **self.cluster.environment, **environment}))
        return self._started[-1]

    @staticmethod
    def end_of(process, status=0):
        """Waits for the end, which must have this exit status; any, if it is None."""
        output, errors = process.communicate(timeout=LIMIT_S)
        assert status in (None, process.returncode), output + errors
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def call(self, *arguments, status=0, **environment):
        return self.end_of(self.start(*arguments, **environment), status)

    def with_stub(self, *more):
        """Returns the arguments that run the experiment on the cluster with the stub trainer."""
        return self._on_slurm(self.stub_trainer, *more)

    def with_trainer(self, *more):
        return self._on_slurm(self.trainer, *more)

    def _on_slurm(self, trainer, *more):
        return [self.file, "--launcher", "slurm", "--trainer", trainer, "--query-interval", "0.2",
                *more]

    def local_losses(self, *more):
        """Returns the losses of the same runs on this host, without Slurm, with the real trainer.
        TMPDIR hides other runners, so this does not wait for them. Runs that differ only in `slurm`
        share losses."""
        runs = yaml.safe_load(self.file.read_text())
        runs["base"].pop("slurm", None)
        key = json.dumps([runs, *more])
        if key not in LOCAL_LOSSES:
            results = self.folder / "local"
            self.call(self.file, "--trainer", self.trainer, "--results", results, *more,
                      TMPDIR=str(self.folder))
            LOCAL_LOSSES[key] = self.losses(results)
        return LOCAL_LOSSES[key]

    def end(self):
        for process in self._started:
            process.kill()
            process.communicate()

    # --- the records ---

    def query(self, sql, *values, results=None):
        file = (results or self.results) / "results.sqlite"
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=LIMIT_S) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def statuses(self):
        """Returns point -> its run's status."""
        return {row["point"]: row["status"]
                for row in self.query("select point, status from runs order by id")}

    def attempts(self):
        """Returns point -> its attempts' statuses, in order. Checks that each attempt has its
        folder."""
        attempts = {}
        for row in self.query("select point, folder, attempts.status as status, attempts.attempt "
                              "from attempts join runs on run = runs.id order by run, attempt"):
            statuses = attempts.setdefault(row["point"], [])
            statuses.append(row["status"])
            assert row["attempt"] == len(statuses)
            assert (self.results / row["folder"] / f"attempt-{row['attempt']}").is_dir()
        for folder in self.results.glob("runs/*/*"):
            [row] = self.query("select count(*) as count from attempts join runs on run = runs.id "
                               "where folder = ?", str(folder.relative_to(self.results)))
            assert row["count"] == len(list(folder.glob("attempt-*")))
        return attempts

    def losses(self, results=None):
        """Returns point -> step -> loss, of the last attempt that did the step."""
        losses = {}
        for row in self.query("select point, step, loss from steps join runs on run = runs.id "
                              "where rank = 0 order by run, attempt, step", results=results):
            losses.setdefault(row["point"], {})[row["step"]] = row["loss"]
        return losses

    def run_folder(self, point):
        """Waits for the run's folder, and returns it."""
        return Cluster.wait_until(f"{point} has a folder",
                                  lambda: next(self.results.glob(f"runs/*/{point}-" + "[0-9a-f]" * 8), None))

    def records(self, name):
        """Returns the contents of all launch.json or end.json, in the order of runs and
        attempts."""
        return [json.loads(file.read_text())
                for file in sorted(self.results.glob(f"runs/*/*/attempt-*/{name}"))]

    def most_at_once(self):
        """Returns how many runs were in progress at the same time."""
        changes = sorted([(record["ended_unix_ms"], -1) for record in self.records("end.json")] +
                         [(record["started_unix_ms"], 1) for record in self.records("launch.json")])
        return max(itertools.accumulate(change for _, change in changes))

    # --- the ranks ---

    def ranks(self, point):
        """Returns the ids of the processes that train the point."""
        programs = (str(self.trainer), str(self.stub_trainer))
        run = str(self.run_folder(point).relative_to(self.folder))
        return [pid for pid, _ in processes() if program_of(pid) in programs and
                run in command_of(pid) and os.readlink(f"/proc/{pid}/cwd") == str(self.folder)]

    def wait_for_step(self, point, step, attempt=1):
        events = self.run_folder(point) / f"attempt-{attempt}/events.rank0.jsonl"
        self.cluster.wait_until(f"{point} starts", events.exists, pause=0.05)
        self.cluster.wait_until(f"step {step} of {point}",
                                lambda: self.last_step(point, attempt) >= step, pause=0.002)

    def last_step(self, point, attempt=1):
        """Returns the last step that rank 0 has reported, or 0."""
        file = self.run_folder(point) / f"attempt-{attempt}/events.rank0.jsonl"
        events = map(json.loads, file.read_text().split("\n")[:-1])
        return max((event["step"] for event in events if event["kind"] == "step"), default=0)

    def let_wait(self, step, attempt=1):
        """Lets the ranks of an attempt wait after this step, until `hold` (hold_at_step.cpp)."""
        (self.folder / HOLDS).mkdir(exist_ok=True)
        (self.folder / HOLDS / f"attempt-{attempt}").write_text(str(step))

    def hold(self, point, attempt=1):
        """Stops the ranks of the attempt, which wait. They go on when they get SIGCONT. Returns the
        ranks."""
        held = self.folder / HOLDS / f"attempt-{attempt}"
        self.cluster.wait_until(f"attempt {attempt} waits", Path(f"{held}-waits").exists)
        ranks = self.ranks(point)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
            self.cluster.wait_until(f"{rank} stands still", lambda: state_of(rank) == "T",
                                    pause=0.001)
        held.unlink()
        return ranks

    def release(self, ranks):
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)

    def wait_for_signal(self, number, ranks):
        """Waits until Slurm has sent the stopped ranks this signal."""
        for rank in ranks:
            self.cluster.wait_until(f"{rank} is sent {number.name}",
                                    lambda: number in pending_signals(rank))


def let_all_in(*places):
    """Opens pytest's folders, which are for its own user only, to all users."""
    for place in places:
        for folder in (place, *place.parents):
            if "pytest" in str(folder):
                folder.chmod(0o755)


def status_of_another_user(work):
    """Returns the status as another user sees it, who may write to the results."""
    subprocess.run(["chmod", "-R", "a+rwX", work.results], check=True)
    looked = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", work.runner, "status"],
        cwd=work.folder, text=True, env={**os.environ, **work.cluster.environment}, capture_output=True)
    assert looked.returncode == 0, looked.stderr + looked.stdout
    return looked.stdout


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def pending_signals(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return [number for number in signal.Signals if any(mask >> (number - 1) & 1 for mask in masks)]
