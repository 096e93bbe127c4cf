"""The checks at the end of a day notice wrong results: each gets results that were tampered
with."""
import json
import shutil
import sqlite3

import checks
import pytest


def findings_in(place, results):
    database = checks.open_results(results)
    expected = [tuple(row) for row in checks.open_results(place.results).execute(
        "select experiment, point, hash from runs")]
    return {check: list(found) for check, found in {
        "whole": checks.whole_database(database),
        "once": checks.every_run_once(database, expected),
        "losses": checks.losses_are_those_of(checks.losses_of(results),
                                             checks.losses_of(place.results)),
        "figures": checks.figures_follow_from_events(results, database),
        "stray": checks.nothing_stray(results, database),
        "checkpoints": checks.checkpoints_are_complete(results),
        "merged": checks.merged_is_the_same(results, place.merged),
    }.items()}


@pytest.fixture
def results(place, tmp_path):
    return shutil.copytree(place.results, tmp_path / "results")


def test_what_nobody_touched_is_found_good(place, results):
    assert not any(findings_in(place, results).values())


@pytest.mark.parametrize("check, change", [
    ("whole", "update steps set run = 77 where run = 2 and sequence = 5"),
    ("once", "update runs set current = 0 where id = 1"),
    ("once", "update runs set status = 'failed' where id = 2"),
    ("once", "update attempts set status = 'running' where run = 2"),
    ("figures", "update steps set loss = loss + 1e-6 where run = 1 and step = 5"),
    ("figures", "delete from steps where run = 2 and rank = 1 and step = 30"),
    ("figures", "update summaries set step_time_ms_median = step_time_ms_median * 1.0001"),
    ("figures", "update summaries set memory_reserved_bytes_min = memory_reserved_bytes_min + 1"),
    ("figures", "update ranks set last_sequence = last_sequence - 1 where run = 1"),
    ("merged", "update summaries set tokens_per_second = tokens_per_second + 1 where run = 1"),
])
def test_a_changed_database_is_noticed(place, results, check, change):
    with sqlite3.connect(results / "results.sqlite") as database:
        database.execute(change)
    assert findings_in(place, results)[check]


def lost_step(results):
    """Removes a step from a rank's events, but not from the database."""
    file = next(results.glob("runs/*/*/attempt-1/events.rank0.jsonl"))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"step":7,' not in line))


def changed_loss(results):
    file = next(results.glob("runs/*/*/attempt-1/events.rank0.jsonl"))
    events = [json.loads(line) for line in file.read_text().splitlines()]
    first_step = next(event for event in events if event["kind"] == "step")
    first_step["loss"] += 1e-7
    file.write_text("".join(json.dumps(event) + "\n" for event in events))


def stray_attempt(results):
    attempt = next(results.glob("runs/*/*/attempt-1"))
    shutil.copytree(attempt, attempt.with_name("attempt-77"))


@pytest.mark.parametrize("check, change", [
    ("losses", lost_step), ("losses", changed_loss), ("figures", changed_loss),
    ("stray", lambda results: (results / "runs/day/x.new").write_text("")),
    ("stray", stray_attempt),
    ("stray", lambda results: next(results.glob("**/checkpoints")).joinpath(
        "step-9.partial").mkdir()),
    ("checkpoints", lambda results: next(results.glob("**/step-*/*.safetensors")).write_text("")),
    ("checkpoints", lambda results: next(results.glob("**/step-*/trainer.json")).unlink()),
])
def test_changed_files_are_noticed(place, results, check, change):
    change(results)
    assert findings_in(place, results)[check]
