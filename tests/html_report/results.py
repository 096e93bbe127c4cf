"""A results folder with data for every chart. The runs are of the stub trainer. Figures that the
stub does not measure are added to the database."""

import contextlib
import json
import math
import os
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path

GIBIBYTE = 2**30
HOSTILE = "<img src=x onerror=alert(1)> </script><!-- & \""

EXPERIMENT = {
    "experiment": "trial",
    "title": HOSTILE,
    "base": {"device": "cpu", "train.steps": 6, "evaluation.every_steps": 2,
             "evaluation.fraction": 0.2},
    "points": [
        {"name": "1 GPU", "strategy": {"kind": "single", "ranks": 1}, "train.steps": 1200},
        {"name": "4xDDP", "strategy": {"kind": "ddp", "ranks": 4}},
        {"name": HOSTILE, "strategy": {"kind": "fsdp", "ranks": 2}},
        *({"name": f"{name} size_per_rank={batch}", "batch.size_per_rank": batch,
           "activation_checkpointing.every": every, "strategy": {"kind": "fsdp", "ranks": 2}}
          for name, every, batches in [("plain", 0, [1, 2, 4]), ("checkpointed", 1, [1, 2, 4, 8, 6])]
          for batch in batches),
    ],
}
# Names of folders use only characters that are safe in file names.
RULES = "point=plain-size_per_rank-4,step=1,out_of_memory=it does not fit;" \
    "point=checkpointed-size_per_rank-8,step=1,out_of_memory=it does not fit"


NOTES = f"\nFSDP is *slower*\nthan DDP.\n  \n<script>alert(1)</script> {HOSTILE}\n\n\n{'wide_' * 20}\n"
FILE_TEXT = f"# {HOSTILE}\nexperiment: trial\n"


@dataclass
class Results:
    folder: Path
    page: Path
    large_page: Path  # with 1,100 more runs
    many_ranks_page: Path  # has a run of 64 ranks, and one of 2
    band_gibibytes: tuple[float, float]  # the least and the most memory of those 64 ranks
    failures_page: Path  # has only the runs that did not fit
    notes_page: Path  # with a reader's notes
    absurd_page: Path  # has impossible figures

    def rows(self, query, *values):
        with opened(self.folder / "results") as database:
            return [dict(row) for row in database.execute(query, values)]


def make_up_what_the_stub_does_not_measure(database):
    runs = database.execute("select id, point, spec ->> '$.strategy.ranks' as ranks, "
        "spec ->> '$.batch.size_per_rank' as batch_size_per_rank from runs").fetchall()
    uses = [row[1] for row in database.execute("pragma table_info(memory_peaks)") if row[1].endswith("_bytes")]
    values = [{"parameters_bytes": "memory_allocated_bytes_max / 2",
               "hidden_bytes": "memory_allocated_bytes_max / 4"}.get(use, "0") for use in uses]
    database.execute(
        f"""insert into memory_peaks (run, attempt, rank, sequence, time_unix_ms, step, phase,
             memory_allocated_bytes_max, {", ".join(uses)})
           select run, attempt, rank, 1000000, 0, 1, 'forward', memory_allocated_bytes_max, {", ".join(values)}
           from ranks where memory_allocated_bytes_max is not null""")
    for run, point, ranks, batch in runs:
        wave = [1 + math.sin(run + i) / 7 for i in range(8)]
        if "size_per_rank=" in point:
            database.execute(
                "update runs set family = ?, family_key = 'batch.size_per_rank', family_value = ? "
                "where id = ?", (point.split()[0], batch, run))
        database.execute(
            """update summaries set step_time_ms_median = ?, step_time_ms_p25 = ?,
                 step_time_ms_p75 = ?, tokens_per_second = ?, unpadded_tokens_per_second = ?,
                 communication_time_ms_median = ?, energy_joules = ?, account_rank = 1,
                 products_forward_ms = 20, products_backward_ms = 40, exposed_all_gather_backward_ms = 7,
                 slower_ranks_ms = run, optimizer_ms = 4, clipping_ms = 1, hidden_communication_ms = 9 where run = ? and step_time_ms_median is not null""",
            (120 * wave[0], 110 * wave[0], 140 * wave[0], 3000 * wave[1] * batch,
             3000 * wave[1] * batch, 30 * wave[2], 5000 * wave[3], run))
        database.execute("update runs set spec = json_set(spec, '$.device', 'cuda') where id = ?", (run,))
        for rank in range(ranks):
            database.execute(
                """update ranks set device = ?, gpu = ?, device_name = 'Fake GPU',
                     device_memory_bytes = ?, memory_allocated_bytes_max = ?,
                     memory_reserved_bytes_max = ?, memory_allocated_bytes_forward = ?
                   where run = ? and rank = ? and memory_allocated_bytes_max is not null""",
                (f"cuda:{rank}", f"gpu:{rank}", 80 * GIBIBYTE,
                 int((40 + rank) * wave[4] * GIBIBYTE), int((60 + rank) * wave[4] * GIBIBYTE),
                 int((30 + rank) * wave[4] * GIBIBYTE), run, rank))
        for sequence in range(100, 120):
            for place, device in enumerate(["cpu", "gpu:0", "gpu:1"]):
                database.execute(
                    """insert into device_samples (run, attempt, rank, sequence, time_unix_ms, host,
                         device, device_name, utilization_percent)
                       select run, attempt, rank, ?, started_unix_ms + ?, host, ?, 'Fake', ?
                       from ranks where run = ? and rank = 0""",
                    (10_000 + 3 * sequence + place, 500 * (sequence - 99), device,
                     min(100, 50 * wave[sequence % 8] * (place + 1)), run))
    database.execute("insert or replace into experiment_texts values ('abc', ?)", (FILE_TEXT,))
    database.execute(
        """update attempts set git_commit = '0123abcd', git_dirty = 1, git_untracked = 1,
             trainer_digest = 'fedc9876',
             environment = ?, experiment_text_digest = 'abc'""",
        (json.dumps({"OMP_NUM_THREADS": "10", "NCCL_DEBUG": HOSTILE}),))
    database.execute("update steps set loss = 5.0 / step + (step % 7) / 10.0 where loss > 0")


def plan_many_more_runs(database, count):
    """Adds copies of the last run that have not been started."""
    columns = [column["name"] for column in database.execute("pragma table_info(runs)")]
    changed = {"id": "id + :n", "hash": "hash || :n", "position": "position + :n",
               "point": "'another ' || :n", "series": "'another ' || :n", "status": "'planned'"}
    database.executemany(
        f"insert into runs select {', '.join(changed.get(name, name) for name in columns)} from runs "
        "where id = (select max(id) from runs where point not like 'another%')",
        [{"n": n} for n in range(1, count + 1)])


def add_ranks(database, run, count):
    """Gives a run of 4 ranks `count` ranks. The new ones are like rank 0."""
    columns = [column["name"] for column in database.execute("pragma table_info(ranks)")]
    chosen = [":n" if name == "rank" else name for name in columns]
    for rank in range(4, count):
        database.execute(f"insert into ranks select {', '.join(chosen)} from ranks where run = :run and rank = 0",
                         {"n": rank, "run": run})


def give_ranks(database, count):
    """Gives the run with 4 ranks `count` ranks. Returns the least and the most GiB of its ranks."""
    run = database.execute("select id from runs where point = '4xDDP'").fetchone()["id"]
    database.execute("update runs set point = :name, series = :name where id = :run",
                     {"name": f"{count} ranks", "run": run})
    database.execute("update runs set point = '2 ranks', series = '2 ranks' where point = ?", (HOSTILE,))
    add_ranks(database, run, count)
    database.execute("update ranks set memory_allocated_bytes_max = (20 + rank / 4.0) * ? where run = ?",
                     (GIBIBYTE, run))
    return 20, 20 + (count - 1) / 4


ABSURD_VALUES = (
    ("attempts", "started_unix_ms", ("9223372036854775807", "-62167219200000", "0")),
    ("attempts", "environment", ("'{'", "'[]'", "'null'", "''")),
    ("summaries", "tokens_per_second", ("9e999", "-1", "1e300", "100")),
    ("summaries", "step_time_ms_median", ("1e300", "-9e999", "0")),
    ("summaries", "step_time_ms_p25", ("9e999", "null", "-1e308")),
    ("summaries", "memory_allocated_bytes_max", ("-5", "9223372036854775807", "0")),
    ("summaries", "total_time_ms", ("-1", "9223372036854775807")),
    ("ranks", "memory_allocated_bytes_max", ("-5", "9223372036854775807", "0")),
    ("ranks", "device_memory_bytes", ("-5", "9223372036854775807")),
    ("steps", "loss", ("9e999", "-1.7e308", "1.7e308", "null", "2.5")),
    ("device_samples", "utilization_percent", ("9e999", "-1e308", "50")),
    ("device_samples", "time_unix_ms", ("9223372036854775807", "-62167219200000", "0")),
    ("runs", "family_value", ("0", "-8", "9223372036854775807", "4")),
)


def make_absurd(database):
    """Gives each column of ABSURD_VALUES its values in turn: one per run, step or sample."""
    for table, column, values in ABSURD_VALUES:
        number = {"runs": "id", "steps": "sequence", "device_samples": "sequence"}.get(table, "run")
        for place, value in enumerate(values):
            database.execute(f"update {table} set {column} = {value} where {column} is not null "
                             f"and {number} % {len(values)} = {place}")


def run_program(runner, folder, *words, **variables):
    """Returns the output of fsdp-run, which must end well."""
    done = subprocess.run([runner, *words], cwd=folder, capture_output=True, text=True,
                          env=os.environ | {"TMPDIR": str(folder)} | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def opened(results):
    """Yields the database of a results folder. Its changes are committed."""
    database = sqlite3.connect(results / "results.sqlite")
    database.row_factory = sqlite3.Row
    with contextlib.closing(database), database:
        yield database


def index_for_good(runner, folder, name):
    """Brings the index of results up to date. As their files look old then, reports do not read them again, which would
    undo changes of the index."""
    for place in (folder / name).rglob("*"):
        os.utime(place, (1e9, 1e9))
    run_program(runner, folder, "report", "experiment.yaml", "--results", name)


def make_results(folder, runner, stub_trainer):
    (folder / "experiment.yaml").write_text(json.dumps(EXPERIMENT))
    (folder / "notes.txt").write_text(NOTES)
    run_program(runner, folder, "experiment.yaml", "--trainer", stub_trainer, "--max-parallel", "4",
                STUB_RULES=RULES)

    def write_page(name, *words):
        run_program(runner, folder, "report", "experiment.yaml", "--output", name, *words)
        return folder / name

    def make_up(name, change=lambda results: None):
        index_for_good(runner, folder, name)
        with opened(folder / name) as results:
            make_up_what_the_stub_does_not_measure(results)
            return change(results)

    def changed_copy(name, change):
        shutil.copytree(folder / "results", folder / name)
        return make_up(name, change)

    changed_copy("many", lambda copy: plan_many_more_runs(copy, 1100))
    changed_copy("absurd", make_absurd)
    band = changed_copy("ranks", lambda copy: give_ranks(copy, 64))
    make_up("results")
    return Results(
        folder, write_page("report.html"), write_page("large.html", "--results", "many"),
        write_page("ranks.html", "--results", "ranks", "--where", "point ~ ranks"), band,
        write_page("failures.html", "--where", "status = out_of_memory"),
        write_page("notes.html", "--notes", "notes.txt"),
        write_page("absurd.html", "--results", "absurd"))
