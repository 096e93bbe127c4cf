"""Rows of others with impossible figures. merge refuses them by name. If a database has them
anyway, its page still has its table."""

import json
import pathlib
import re
import sqlite3

from tests.hostile import figures, oracle
from tests.hostile.case import Case
from tests.hostile.kinds import databases

TABLES = ("attempts", "ranks", "summaries", "steps", "evaluations", "checkpoints", "runs")
LAST_UNIX_MS = 253402300799999
NUMBERS = (9e999, -9e999, -1, -2**63, 2**63 - 1, 1e300, -1e300, 1e40, 0, 1, 5e-324, -62167219200000,
           LAST_UNIX_MS, LAST_UNIX_MS + 1)
TEXTS = ("", "{", "{}", "[]", "null", "3", '"a"', "nan", '{"a": NaN}', '{"a": 1e999}', "{\"A\": [1]}")
# These columns name rows, or the owner of a row.
LEFT_ALONE = ("id", "run", "attempt", "rank", "sequence", "experiment", "step", "current", "spec")


def is_plausible(column: str, value) -> bool:
    if column == "environment":
        try:
            return value == "" or isinstance(oracle.strict_json(value.encode()), dict)
        except ValueError:
            return False
    if column.endswith("_unix_ms"):
        return 0 <= value <= LAST_UNIX_MS
    if "_time_ms" in column:
        return 0 <= value <= 1e15
    if any(part in column for part in ("loss", "energy", "temperature")):
        return abs(value) <= 1e39
    return column == "exit_code" or 0 <= value <= 1e39


def change(case: Case, database: pathlib.Path) -> dict[str, bool]:
    """Returns the changed columns. True means that the new value is plausible."""
    changed = {}
    connection = databases.connect(database)
    for _ in range(case.random.choice([1, 1, 3])):
        table = case.random.choice(TABLES)
        columns = {row[1]: row[2].lower() for row in connection.execute(f"pragma table_info({table})")
                   if row[1] not in LEFT_ALONE and (row[2].lower() in ("integer", "real") or row[1] == "environment")}
        column = case.random.choice(sorted(columns))
        value = case.random.choice(TEXTS if column == "environment" else NUMBERS)
        if columns[column] == "integer" and isinstance(value, float):
            value = -7
        try:
            done = connection.execute(f"update {table} set {column} = ?", (value,))
        except sqlite3.Error as error:
            case.note(f"{table}.{column} stays: {error}")
            continue
        case.note(f"{table}.{column} = {value!r}")
        if done.rowcount > 0:
            changed[column] = is_plausible(column, value)
    connection.close()
    return changed


def attack(case: Case) -> None:
    folder = case.take("sweep")
    results = folder / "results"
    changed = change(case, results / "results.sqlite")
    page(case, results)
    figures.check_report(case, results, may_change=databases.MAY_CHANGE)
    ended = case.fsdp_run("merge", f"alice={results.relative_to(case.work)}", "--results", "all",
                          may_change=("all", *databases.WAL_INDEX))
    absurd = {column for column, plausible in changed.items() if not plausible}
    if ended.ok:
        if absurd:
            case.fail(f"merged in spite of {sorted(absurd)}")
        figures.check_report(case, case.work / "all")
        page(case, case.work / "all")
    elif absurd and not any(column in ended.excerpt() for column in absurd):
        case.fail(f"refused, but without a name of {sorted(absurd)}: {ended.excerpt()}")


def page(case: Case, results: pathlib.Path) -> None:
    """Checks that a page is made, and that its data are JSON with every row."""
    ended = databases.read(case, results, "report", "--format", "html", may_change=("all",))
    if not ended.ok:
        return
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', ended.output, re.S)
    try:
        data = json.loads(found.group(1))
    except (AttributeError, ValueError) as error:
        case.fail(f"the page has no data: {error}")
        return
    if not any(block["rows"] for block in data["blocks"]):
        case.fail("the page has no rows")
