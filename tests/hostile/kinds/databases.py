"""Copies of results.sqlite that other people, torn disks and other programs have changed."""

import pathlib
import re
import shutil
import sqlite3

from tests.hostile import figures, odd, oracle
from tests.hostile.case import Case

TABLES = ("experiments", "runs", "attempts", "ranks", "steps", "summaries", "evaluations",
          "checkpoints", "jobs", "experiment_texts", "file_digests")

NAMES_OF_FILES = (("runs", "folder"), ("runs", "experiment"), ("runs", "point"),
                  ("checkpoints", "path"), ("experiments", "name"), ("experiments", "file"))


def attack(case: Case) -> None:
    folder = case.take("sweep")
    results = folder / "results"
    database = results / "results.sqlite"
    case.random.choice([Case.damage, change_values, change_values, change_values, change_schema,
                        change_schema, replace, add_journal])(case, database)
    for command in case.random.sample(
        [report, others, merge, merge_into_my_own, prune, export, run_again], 2):
        command(case, results)
    if "foreign" in case.notes:
        check_foreign(case, database)


def connect(database: pathlib.Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("pragma foreign_keys = off")
    connection.execute("pragma ignore_check_constraints = on")
    return connection


def change_values(case: Case, database: pathlib.Path) -> None:
    with connect(database) as connection:
        for _ in range(case.random.choice([1, 1, 2, 5])):
            if case.random.random() < 0.3:
                table, column = case.random.choice(NAMES_OF_FILES)
            else:
                table = case.random.choice(TABLES)
                columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
                column = case.random.choice(columns)
            value = odd_value(case, column)
            where = case.random.choice(
                ["1", "rowid % 2" if table in ("experiments", "runs") else "1"])
            try:
                connection.execute(f"update {table} set {column} = {value[0]} where {where}",
                                   value[1])
                case.note(f"{table}.{column} = {value}")
            except sqlite3.Error as error:  # violates `not null` or `unique`
                case.note(f"{table}.{column} stays: {error}")
    connection.close()


def odd_value(case: Case, column: str) -> tuple[str, tuple]:
    """Returns an SQL expression and its parameters."""
    if column in ("folder", "path") and case.random.random() < 0.7:
        runs = sorted((case.artefacts / "sweep/results").glob("runs/*/*"))
        own = runs[case.random.randrange(len(runs))].relative_to(case.artefacts / "sweep/results")
        return "?", (case.random.choice([
            "../../..", "..", "/",
            str(case.work),
            str(case.folder / "home"), ".", "", "runs", f"../{own}", f"../{own}",
            str(own.parent), "../../work", "runs/../.."
        ]),)
    if case.random.random() < 0.1:
        return "cast(x'fffe80ff1b' as text)", ()
    if case.random.random() < 0.1:
        return case.random.choice([
            "9e999", "-9e999", "zeroblob(100)", "null", f"{column} || '\x1b[31m'", f"-{column}",
            f"{column} * 1e300"
        ]), ()
    if case.random.random() < 0.1:
        return "?", (odd.nested(case.random, "{\"a\":", "}"),)
    if case.random.random() < 0.5:
        return "?", (odd.number(case.random),)
    return "?", (odd.text(case.random).encode("utf-8", "replace").decode(),)


def change_schema(case: Case, database: pathlib.Path) -> None:
    table = case.random.choice(TABLES)
    pragma = case.random.choice(["user_version", "application_id"])
    number = case.random.choice([-1, -2**31, 0, 1, 2, 3, 4, 5, 6, 7, 100, 2**31 - 1, 1178878804])
    statement = case.random.choice([
        f"drop table {table}",
        "drop view comparison",
        f"alter table {table} rename to other",
        f"alter table {table} add column stranger text default '\x1b[2J'",
        "create table stranger (a, b)",
        f"create trigger stranger after insert on {table} begin delete from runs; end",
        f"create trigger stranger before update on {table} begin select raise(abort, '\x1b'); end",
        f"create trigger stranger after insert on {table} begin "
        f"insert into {table} select * from {table}; end",
        "create view stranger as select * from runs",
        "drop view comparison; create view comparison as select 1 as a",
        "drop view statuses; create view statuses as select * from statuses",
        "drop view comparison; create view comparison as with recursive c(x) as "
        "(select 1 union all select x + 1 from c where x < 100000) select x from c",
        f"delete from {table}",
        f"insert into {table} select * from {table} where 0",
        "pragma journal_mode = wal",
        "pragma encoding = 'UTF-16'",
        *[f"pragma {pragma} = {number}"] * 20,
        f"create unique index stranger on {table} (1)",
        "delete from runs where id = 1",
        "delete from attempts where run = 2",
        "update attempts set status = 'running', ended_unix_ms = null",
        "update runs set status = 'no status'",
    ])
    connection = connect(database)
    try:
        connection.executescript(statement)
        case.note(statement)
    except sqlite3.Error as error:
        case.note(f"{statement}: {error}")
    connection.close()


def replace(case: Case, database: pathlib.Path) -> None:
    """Puts something else in place of the database."""
    what = case.random.choice(["foreign", "folder", "text", "loop", "dangling", "symlink", "unreadable",
                               "read-only", "pipe"])
    case.note(what)
    if what == "symlink":
        shutil.move(database, database.parent / "target.sqlite")
        return database.symlink_to("target.sqlite")
    odd.put(database, what, odd.text(case.random).encode() * 100 if what == "text" else b"")
    if what == "dangling":
        database.unlink()
        database.symlink_to(database.parent / "target.sqlite")
    elif what == "foreign":
        with sqlite3.connect(database) as connection:
            connection.execute("create table bookmarks (url text, runs integer)")
            connection.execute("insert into bookmarks values ('\x1b[2J', 1)")
        connection.close()
    return None


def check_foreign(case: Case, database: pathlib.Path) -> None:
    """Checks that another program's database stayed as it was."""
    with connect(database) as connection:
        if connection.execute("select * from bookmarks").fetchall() != [("\x1b[2J", 1)]:
            case.fail("a foreign database was changed")
    connection.close()


def add_journal(case: Case, database: pathlib.Path) -> None:
    journal = database.with_name("results.sqlite" +
                                 case.random.choice(["-journal", "-wal", "-shm"]))
    contents = case.random.choice([b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", b""
                                  ]) + case.random.randbytes(600)
    journal.write_bytes(contents)
    case.note(f"noise in {journal.name}")


def read(case: Case, results: pathlib.Path, *words: str, may_change: tuple[str, ...] = ()):
    return case.fsdp_run(*words, "--results", str(results.relative_to(case.work)),
                         may_change=may_change)


def report(case: Case, results: pathlib.Path) -> None:
    form = case.random.choice(["table", "markdown", "csv", "latex", "html", "json", "jsonl", "parquet"])
    rows = case.random.choice([[], ["--per-rank"], ["--per-series"], ["trial"], ["--since", "1d"]])
    ended = read(case, results, "report", "--format", form, *rows)
    if ended.ok and form == "html":
        check_page(case, ended.output)
    if case.random.random() < 0.7:
        figures.check_report(case, results)


def check_page(case: Case, page: bytes) -> None:
    """Checks that the page's data are JSON."""
    try:
        oracle.strict_json(re.search(rb'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
    except (AttributeError, ValueError) as error:
        case.fail(f"the page has no data: {error}")


def others(case: Case, results: pathlib.Path) -> None:
    for words in case.random.sample(
        [["status", "--all"], ["status"], ["logs", "one"], ["logs", "2"], ["explain", "broken"],
         ["explain", "1"], ["diff", "1", "2"], ["diff", "one", "fsdp"], ["why", "1", "2"], ["cancel"], ["doctor"]], 3):
        read(case, results, *words)
    case.fsdp_run("complete", "fsdp-run", "logs", "")


def merge(case: Case, results: pathlib.Path) -> None:
    ended = case.fsdp_run("merge", f"alice={results.relative_to(case.work)}", "--results", "all",
                          may_change=("all",))
    if ended.ok:
        figures.check_report(case, case.work / "all", may_change=("all",))


def merge_into_my_own(case: Case, results: pathlib.Path) -> None:
    """Merges a folder that lies in the results. Pruning the merged runs changes no file of a
    run."""
    mine = case.take("sweep/results", "mine")
    shutil.move(results, mine / "theirs")
    may_change = ("mine/merged", "mine/lists")
    ended = case.fsdp_run("merge", "alice=mine/theirs", "--results", "mine", may_change=may_change)
    shutil.move(mine / "theirs", results)
    if not ended.ok:
        return
    shutil.copytree(results, mine / "theirs", symlinks=True)
    case.fsdp_run("prune", "--yes", *case.random.choice([["alice/trial"], ["--checkpoints",
                                                                           "alice/trial"]]),
                  "--results", "mine", may_change=(*may_change, "mine/.*.lock"))


def prune(case: Case, results: pathlib.Path) -> None:
    words = case.random.choice([["--dry-run"], ["--yes"], ["--yes", "--checkpoints"],
                                ["--yes", "--not-current"], ["--yes", "trial"],
                                ["--yes", "--checkpoints", "--keep-last", "1"]])
    read(case, results, "prune", *words, may_change=("sweep/results",))


def export(case: Case, results: pathlib.Path) -> None:
    form = case.random.choice(["csv", "jsonl", "parquet", "tensorboard", "wandb", "mlflow", "trackio"])
    if read(case, results, "export", "--to", "exported", "--format", form, may_change=("exported",)).ok:
        figures.check_export(case, case.work / "exported", results)


def run_again(case: Case, results: pathlib.Path) -> None:
    """A run writes to the database if it accepts it."""
    ended = case.train("sweep/experiment.yaml",
                       *case.random.choice([[], ["--rerun"], ["--only", "one"]]),
                       results=str(results.relative_to(case.work)))
    if ended.status in (0, 1):
        figures.check_report(case, results)
