"""Reads and computes the figures of a results folder, without the programs under test."""

import contextlib
import math
import pathlib
import shutil
import sqlite3
import statistics
import tempfile

import pyarrow.parquet

from tests.hostile import oracle
from tests.hostile.case import Case

FINITE = (int, float)


@contextlib.contextmanager
def database(results: pathlib.Path):
    """Opens a copy of the results folder's database, so that reading changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("results.sqlite", "results.sqlite-journal"):
            if (results / name).is_file():
                shutil.copyfile(results / name, pathlib.Path(folder, name))
        connection = sqlite3.connect(pathlib.Path(folder, "results.sqlite"))
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        try:
            yield connection
        finally:
            connection.close()


def comparison(results: pathlib.Path) -> list[dict]:
    with database(results) as connection:
        return [dict(row) for row in connection.execute("select * from comparison")]


def row_of(results: pathlib.Path, point: str) -> dict:
    [row] = [row for row in comparison(results) if row["point"] == point]
    return row


def is_number(value) -> bool:
    return isinstance(value, FINITE) and not isinstance(value, bool)


def equal(left, right) -> bool:
    if left is None or right is None:
        return left is right
    return left == right or math.isclose(left, right, rel_tol=1e-12)


def check_report(case: Case, results: pathlib.Path, **options) -> dict | None:
    """Runs `report --format json`, and compares each number with SQLite's."""
    ended = case.fsdp_run("report", "--format", "json", "--per-run", "--results", str(results),
                          **options)
    if not ended.ok:
        return None
    try:
        report = oracle.strict_json(ended.output)
    except ValueError as error:
        case.fail(f"the report is no JSON: {error}\n{ended.excerpt()}")
        return None
    try:
        rows = comparison(results)
    except sqlite3.Error as error:
        case.fail(f"a report of a database that SQLite cannot read: {error}\n{ended.excerpt()}")
        return None
    if any("run" not in row for row in rows):
        return report  # a changed view, which reports do not read
    stored = {row["run"]: row for row in rows}
    for row in report["rows"]:
        compare_row(case, row, stored.get(row.get("run")))
    return report


def compare_row(case: Case, shown: dict, stored: dict | None) -> None:
    if stored is None:
        case.fail(f"the report has a run that is not stored: {shown.get('run')}")
        return
    for name, value in shown.items():
        if name not in stored:
            continue
        kept = stored[name]
        if is_number(value) and not (is_number(kept) and equal(kept, value)):
            case.fail(f"the report's {name} is {value}, SQLite's {kept!r}")
        if value is None and is_number(kept) and math.isfinite(kept) and name != "reason_rank":
            case.fail(f"the report has no {name}, SQLite has {kept!r}")


def check_export(case: Case, folder: pathlib.Path, results: pathlib.Path) -> None:
    """Checks that each file of an export is well formed, and has as many steps as the database."""
    for file in sorted(folder.rglob("*")):
        try:
            if file.suffix == ".csv":
                oracle.csv_rows(file.read_bytes())
            elif file.suffix == ".jsonl":
                for line in file.read_bytes().split(b"\n")[:-1]:
                    oracle.strict_json(line)
            elif file.suffix == ".json":
                oracle.strict_json(file.read_bytes())
            elif file.suffix == ".parquet":
                pyarrow.parquet.read_table(file).validate(full=True)
        except ValueError as error:
            case.fail(f"exported {file.relative_to(folder)}: {error}")


def recomputed(connection: sqlite3.Connection, run: int, attempt: int) -> dict:
    """Computes an attempt's figures from its steps, as docs/internals.md defines them."""
    ranks, warmup = connection.execute(
        "select spec ->> '$.strategy.ranks', spec ->> '$.train.warmup_steps_excluded' from runs where id = ?",
        (run,)).fetchone()
    steps: dict[int, dict[int, sqlite3.Row]] = {}
    counts = dict.fromkeys(range(ranks), 0)
    last: dict[int, int] = {}
    for row in connection.execute("select * from steps where run = ? and attempt = ? "
                                  "order by rank, sequence", (run, attempt)):
        if row["step"] <= last.get(row["rank"], row["step"] - 1):
            continue  # steps of a rank must increase
        last[row["rank"]] = row["step"]
        steps.setdefault(row["step"], {})[row["rank"]] = row
        counts[row["rank"]] = counts.get(row["rank"], 0) + 1
    whole = [steps[step] for step in sorted(steps) if len(steps[step]) == ranks]
    times = [max(row["step_time_ms"] for row in done.values()) for done in whole]
    of_rank_0 = [steps[step][0] for step in sorted(steps) if 0 in steps[step]]
    after_warmup = times[warmup:] if len(times) > warmup else times
    rows = [row for done in steps.values() for row in done.values()]
    resumed = connection.execute(
        "select 1 from ranks where run = ? and attempt = ? and resumed_from_step > 0",
        (run, attempt)).fetchone()
    figures = {"steps": min(counts.values(), default=0),
               "step_time_ms_median": statistics.median(after_warmup) if after_warmup else None,
               "memory_allocated_bytes_max": max((row["memory_allocated_bytes_max"]
                                                  for row in rows), default=None),
               "memory_reserved_bytes_max": max((row["memory_reserved_bytes_max"] for row in rows),
                                                default=None), "loss_last": of_rank_0[-1]["loss"]
               if of_rank_0 else None}
    if not resumed:  # a resumed attempt has the loss of the run's first step
        figures["loss_first"] = of_rank_0[0]["loss"] if of_rank_0 else None
    return figures


def check_attempts(case: Case, results: pathlib.Path) -> None:
    """Checks that every stored figure of every attempt follows from its stored steps."""
    with database(results) as connection:
        attempts = connection.execute(
            "select s.*, a.status from summaries s join attempts a using (run, attempt)").fetchall(
            )
        for attempt in attempts:
            if attempt["status"] == "running":
                continue
            expected = recomputed(connection, attempt["run"], attempt["attempt"])
            for name, value in expected.items():
                if not equal(attempt[name], value):
                    case.fail(f"run {attempt['run']}, attempt {attempt['attempt']}: {name} is "
                              f"{attempt[name]}, its steps say {value}")


def check_results(case: Case, results: pathlib.Path, **options) -> list[dict]:
    """Checks all that a run or command left, if it made results. Returns the rows of their report."""
    if not (results / "results.sqlite").exists():
        return []
    check_no_crash(case, results)
    check_attempts(case, results)
    return (check_report(case, results, **options) or {"rows": []})["rows"]


def check_no_crash(case: Case, results: pathlib.Path) -> None:
    """Checks in reasons and logs that no rank crashed."""
    with database(results) as connection:
        for row in connection.execute("select run, attempt, reason from attempts"):
            if oracle.is_crash(row["reason"]):
                case.fail(f"run {row['run']}: {row['reason']!a}")
    for log in results.glob("runs/*/*/attempt-*/rank*.log"):
        if oracle.SANITIZER.search(log.read_bytes()):
            case.fail(f"{log.name}: {log.read_bytes()[:2000]!a}")
