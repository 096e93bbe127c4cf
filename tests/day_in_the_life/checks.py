"""The checks at the end of the day. Each yields what is wrong."""
import csv
import json
import math
import re
import sqlite3
from collections import Counter

import experiment
from figures import attempt_figures, events_of, joined, of_kind, rank_figures

# All paths that may be in a results folder, relative to it.
NAMES = re.compile(r"""
    results\.sqlite(-journal|\.damaged)? | fsdp-run\.log(\.1)? | \.[^/]+\.lock |
    lists(/[^/]+\.json)? | texts(/[0-9a-f]+\.yaml)? | runs(/[^/]+(/[^/.][^/]*(/(
        run\.yaml | run\.json | status\.json |
        attempt-\d+(/(events\.rank\d+\.jsonl | rank\d+\.log | launch\.json | end\.json |
                      verdict\.json | checkpoints(/.*)?))? |
        checkpoints(/step-\d+(/[^/.][^/]*)?)?
    ))?)?)?""", re.VERBOSE)


def open_results(results):
    database = sqlite3.connect(f"file:{results}/results.sqlite?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    return database


# Selects runs with the settings that their figures follow from.
RUNS = """select *, spec ->> '$.strategy.ranks' as ranks,
  spec ->> '$.train.warmup_steps_excluded' as warmup_steps_excluded,
  spec ->> '$.batch.gradient_accumulation_steps' as gradient_accumulation_steps from runs """


def rows(database, sql, *values):
    return [dict(row) for row in database.execute(sql, values)]


def whole_database(database):
    for pragma, expected in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
        found = [tuple(row) for row in database.execute(f"pragma {pragma}")]
        if found != expected:
            yield f"{pragma}: {found[:3]}"


def attempts_of(results, database, run):
    """Returns attempt number -> each rank's events."""
    folder = results / run["folder"]
    return {row["attempt"]: [events_of(folder / f"attempt-{row['attempt']}/events.rank{rank}.jsonl")
                             for rank in range(run["ranks"])]
            for row in rows(database, "select attempt from attempts where run = ? order by 1",
                            run["id"])}


def losses_of(results):
    """Returns the losses of all finished runs, current or not: (experiment, point, hash) -> (each
    rank's losses by step, validation losses by step)."""
    database = open_results(results)
    found = {}
    for run in rows(database, RUNS + "where status = 'finished'"):
        finished = rows(database, "select coalesce(max(attempt), 0) as last from attempts "
                        "where run = ? and status = 'finished'", run["id"])[0]["last"]
        attempts = [ranks for number, ranks in attempts_of(results, database, run).items()
                    if number <= finished]
        found[run["experiment"], run["point"], run["hash"]] = (
            [joined([ranks[rank] for ranks in attempts], "step") for rank in range(run["ranks"])],
            joined([ranks[0] for ranks in attempts], "evaluation"))
    return found


def every_run_once(database, expected):
    """`expected`: (experiment, point, hash) of all runs that the experiments define at the end."""
    current = rows(database, "select * from runs where current = 1")
    found = Counter((run["experiment"], run["point"], run["hash"]) for run in current)
    for run, count in (found - Counter(expected)).items():
        yield f"{run} is in the list {count} times too often"
    for run in (Counter(expected) - found):
        yield f"{run} is not in the list"
    for run in current:
        if run["status"] != "finished":
            yield f"{run['point']} is {run['status']}: {run['reason']}"
    for row in rows(database, "select point, attempt from attempts join runs on id = run "
                    "where attempts.status = 'running'"):
        yield f"attempt {row['attempt']} of {row['point']} was never closed"


def losses_are_those_of(disturbed, undisturbed):
    """Compares each step to the last bit, because the trainer is deterministic."""
    for run in disturbed.keys() & undisturbed.keys():  # others read edited inputs
        own, others = ([("validation", validation)] +
                       [(f"rank {rank}", losses) for rank, losses in enumerate(of_ranks)]
                       for of_ranks, validation in (disturbed[run], undisturbed[run]))
        for (what, losses), (_, expected) in zip(own, others):
            if losses.keys() != expected.keys():
                yield f"{run}, {what}: has the steps {sorted(losses)}"
            elif losses != expected:
                step = next(step for step in losses if losses[step] != expected[step])
                yield (f"{run}, {what}: loss at step {step} is {losses[step]}, undisturbed "
                       f"{expected[step]}")


def _is_close(stored, computed):
    if stored is None or computed is None:
        return stored is computed
    return math.isclose(stored, computed, rel_tol=1e-9)


def figures_follow_from_events(results, database):
    for run in rows(database, RUNS):
        earlier = []
        for number, ranks in attempts_of(results, database, run).items():
            name = f"attempt {number} of {run['experiment']}/{run['point']}"
            yield from _summary(database, run, number, ranks, earlier, name)
            earlier.append(ranks[0])
            for rank, events in enumerate(ranks):
                yield from _rank(database, run, number, rank, events, name)


def _summary(database, run, number, ranks, earlier, name):
    stored = rows(database, "select * from summaries where run = ? and attempt = ?", run["id"],
                  number)
    if not any(ranks) and not stored:
        return
    stored = stored[0] if stored else {}
    computed = attempt_figures(ranks, run, earlier)
    for figure in stored.keys() - {"run", "attempt"}:
        if not _is_close(stored[figure], computed.get(figure)):
            yield f"{name}: {figure} is {stored[figure]}, by its events {computed.get(figure)}"
    if computed["steps"] > 0 and not stored:
        yield f"{name} has steps and no figures"


def _rank(database, run, number, rank, events, name):
    key = run["id"], number, rank
    of_rank = " where run = ? and attempt = ? and rank = ?"
    for table, kind in (("steps", "step"), ("evaluations", "evaluation"),
                        ("checkpoints", "checkpoint")):
        stored = {row["sequence"]: row
                  for row in rows(database, f"select * from {table}{of_rank}", *key)}
        for event in of_kind(kind, events):
            row = stored.pop(event["sequence"], None)
            if row is None:
                yield f"{name}: rank {rank} reported {event}, which is not stored"
            elif different := [column for column in row.keys() & event.keys()
                               if row[column] != event[column]]:
                yield f"{name}: {different} of {table} {row} is not what was reported: {event}"
        if stored:
            yield f"{name}: rank {rank} did not report these {table}: {stored}"
    stored = rows(database, "select * from ranks" + of_rank, *key)
    if bool(stored) != bool(events):
        yield f"{name}: rank {rank} has {len(events)} events and {len(stored)} rows"
    for row in stored:
        for figure, value in rank_figures(events, run).items():
            if not _is_close(row[figure], value):
                yield f"{name}: rank {rank}: {figure} is {row[figure]}, by its events {value}"
        if row["last_sequence"] != events[-1]["sequence"]:
            yield f"{name}: rank {rank}: events after {row['last_sequence']} are not stored"


def nothing_stray(results, database):
    """Every file is expected, and every run has its folder."""
    # A run that has finished may be interrupted in a later attempt, which leaves partial
    # checkpoints.
    half_written = tuple(run["folder"] + "/checkpoints/" for run in rows(
        database, "select folder from runs r where 'finished' <> "
        "(select status from attempts where run = r.id order by attempt desc limit 1)"))
    for path in results.rglob("*"):
        name = str(path.relative_to(results))
        if not NAMES.fullmatch(name) and not (name.startswith(half_written) and ".partial" in name):
            yield f"stray: {name}"
    folders = {run["folder"] for run in rows(database, "select folder from runs")}
    for folder in results.glob("runs/*/*"):
        if (name := str(folder.relative_to(results))) not in folders:
            yield f"no run has the folder {name}"
    for run in rows(database, RUNS):
        folder = results / run["folder"]
        known = {row["attempt"] for row in rows(
            database, "select attempt from attempts where run = ?", run["id"])}
        for attempt in folder.glob("attempt-*"):
            # The folder is empty if the runner was killed before it recorded the attempt.
            if int(attempt.name.split("-")[1]) not in known and any(attempt.iterdir()):
                yield f"no attempt has the folder {attempt.relative_to(results)}"


def checkpoints_are_complete(results):
    for folder in results.glob("runs/*/*/**/step-*"):
        name = folder.relative_to(results)
        if folder.suffix == ".partial":  # no run resumes from it
            continue
        if not (folder / "trainer.json").exists():
            yield f"{name} has no trainer.json"
            continue
        state = json.loads((folder / "trainer.json").read_text())
        listed = {file["name"]: file["size_bytes"] for file in state["files"]}
        there = {file.name: file.stat().st_size for file in folder.iterdir()
                 if file.name != "trainer.json"}
        if listed != there:
            yield f"{name} holds {there}, listed are {listed}"


def merged_is_the_same(results, merged):
    """The merged database has the figures of `results`."""
    figures = ("select point, hash, attempt, attempts.status as status, summaries.* from attempts "
               "join runs on id = attempts.run left join summaries using (run, attempt) "
               "where runs.experiment = ? order by point, hash, attempt")
    for name in (experiment.NAME, experiment.OTHER):
        own = rows(open_results(results), figures, name)
        copied = rows(open_results(merged), figures, f"mine/{name}")
        without_numbers = [[{key: value for key, value in row.items() if key != "run"}
                            for row in side] for side in (own, copied)]
        missing = [row for row in without_numbers[0] if row not in without_numbers[1]]
        if missing:
            yield f"merged: {len(missing)} attempts of {name} are missing or differ: {missing[0]}"


def exported_losses(place, undisturbed):
    """Exported loss curves have each step once, with the undisturbed loss."""
    to = place.folder / "exported"
    ended = place.call("export", "--to", to, "--format", "wandb", "--results", place.results)
    if ended.returncode != 0:
        yield "export: " + ended.printed.with_suffix(".err").read_text()
        return
    for (name, point, digest), ([losses, *_], _) in undisturbed.items():
        for folder in (to / name).glob(f"*-{digest[:8]}"):
            lines = map(json.loads, (folder / "history.jsonl").read_text().splitlines())
            curve = [(line["step"], line["train/loss"]) for line in lines if "train/loss" in line]
            if sorted(curve) != sorted(losses.items()):
                yield f"exported: {name}/{point} has another curve: {curve}"


def table_shows_the_figures(place, database):
    ended = place.call("report", "--format", "csv", "--results", place.results)
    shown = list(csv.DictReader(ended.printed.with_suffix(".out").read_text().splitlines()))
    for line in shown:
        run = rows(database, RUNS + "where current = 1 and experiment = ? and point = ?",
                   line["experiment"], line["point"])[0]
        attempts = attempts_of(place.results, database, run)
        ranks = attempts.pop(int(line["attempt"]))
        earlier = [of_ranks[0] for number, of_ranks in attempts.items()
                   if number < int(line["attempt"])]
        for figure, value in attempt_figures(ranks, run, earlier).items():
            if figure in line and not _is_close(float(line[figure] or "nan"), float(value)):
                yield f"table: {figure} of {line['point']} is {line[figure]}, by its events {value}"
    if not shown:
        yield "the table is empty"
