"""Parquet and JSON lines have the same values, types and nulls, as pandas, polars and DuckDB read them."""

import csv
import json
import os
import pty
import shutil
import subprocess
import sys

import duckdb
import pandas
import polars
import pyarrow.parquet
import pytest

TABLES = ["steps", "evaluations", "checkpoints", "device_samples"]
KINDS = {"int64[pyarrow]": int, "double[pyarrow]": float, "string[pyarrow]": str, "bool[pyarrow]": bool,
         "Int64": int, "Float64": float, "String": str, "Boolean": bool,
         "BIGINT": int, "DOUBLE": float, "VARCHAR": str, "BOOLEAN": bool}


def of_pandas(file):
    frame = pandas.read_parquet(file, dtype_backend="pyarrow")
    rows = [[None if value is pandas.NA else value for value in row] for row in frame.itertuples(False, None)]
    return list(frame.columns), frame.dtypes, rows


def of_polars(file):
    frame = polars.read_parquet(file)
    return frame.columns, frame.dtypes, [list(row) for row in frame.rows()]


def of_duckdb(file):
    relation = duckdb.read_parquet(str(file))
    return relation.columns, relation.types, [list(row) for row in relation.fetchall()]


READERS = [of_pandas, of_polars, of_duckdb]


def read(file, reader=of_polars):
    """Returns the types of the columns, and the rows."""
    names, types, rows = reader(file)
    return dict(zip(names, (KINDS[str(each)] for each in types), strict=True)), [
        dict(zip(names, row, strict=True)) for row in rows]


def json_lines(text):
    return [json.loads(line) for line in text.split("\n")[:-1]]


def same(types, rows, expected):
    """Checks rows of Parquet against rows of JSON, in which a real may look like an integer."""
    assert len(rows) == len(expected)
    for ours, theirs in zip(rows, expected):
        assert list(types) == list(theirs)
        for name, value in theirs.items():
            value = None if value == "" else value  # a missing text of an export
            assert ours[name] == value, name
            assert value is None or type(value) is types[name] or (type(value), types[name]) == (int, float), name


# --- export ---


def files_of(folder, ending):
    return {file.relative_to(folder).with_suffix(""): file for file in folder.rglob("*" + ending)}


@pytest.fixture(scope="module")
def exports(workplace):
    """Folders of one export: as Parquet, JSON lines and CSV."""
    return [workplace.export(form, "--format", form) for form in ("parquet", "jsonl", "csv")]


@pytest.mark.parametrize("reader", READERS)
def test_an_export_equals_json_lines(exports, reader):
    expected = files_of(exports[1], ".jsonl")
    found = files_of(exports[0], ".parquet")
    assert found.keys() == expected.keys() and len(found) == 1 + 3 * len(TABLES)
    for name, file in found.items():
        types, rows = read(file, reader)
        same(types, rows, json_lines(expected[name].read_text()))


def test_an_export_equals_csv(exports):
    for name, file in files_of(exports[2], ".csv").items():
        types, rows = read(exports[0] / name.with_suffix(".parquet"))
        with file.open(newline="") as stream:
            texts = list(csv.DictReader(stream, strict=True))
        assert len(texts) == len(rows)
        for text, row in zip(texts, rows):
            for column, value in row.items():
                assert (text[column] == "") == (value is None), column
                assert value is None or types[column](int(text[column]) if types[column] is bool else text[column]) \
                    == value, column


def test_the_columns_have_the_types_of_the_database(exports, workplace):
    kinds = {"INTEGER": (int, bool), "REAL": (float,), "TEXT": (str,)}
    with workplace.database() as database:
        for table in TABLES:
            [declared] = [{name: kind.upper() for _, name, kind, *_ in database.execute(f"pragma table_info({table})")
                           if name != "run"}]
            for file in exports[0].rglob(f"{table}.parquet"):
                types, _ = read(file)
                assert types.keys() == declared.keys()
                assert all(types[name] in kinds[kind] for name, kind in declared.items())
    types, _ = read(exports[0] / "runs.parquet")
    assert [types[name] for name in ("point", "run", "loss_last", "git_dirty", "started_unix_ms", "limit_all_gathers",
                                     "energy_joules", "status")] == [str, int, float, bool, int, bool, float, str]


def test_nothing_that_is_absent_is_0_or_empty(exports):
    [not_run] = [row for row in read(exports[0] / "runs.parquet")[1] if row["point"] == "not run"]
    for name in ("attempt", "loss_last", "started_unix_ms", "git_dirty", "cpu_cores", "memory_total_bytes", "host",
                 "reason", "environment", "memory_allocated_bytes_max"):
        assert not_run[name] is None, name
    for file in exports[0].rglob("*.parquet"):
        assert not any(value == "" for row in read(file)[1] for value in row.values())


def test_odd_values_are_those_of_json_lines(workplace, tmp_path):
    """A figure that is not finite is null, and bytes that are not UTF-8 are U+FFFD."""
    shutil.copytree(workplace.folder / "results", tmp_path / "results")
    with workplace.database(tmp_path / "results") as database:
        database.execute("update steps set gradient_norm = 9e999, step_time_ms = -9e999 where step = 2")
        database.execute("update device_samples set device_name = cast(x'ff410a001b' as text), host = '= 😀, \u202e'")
        database.execute("update attempts set host = cast(x'c3' as text)")
    for form in ("parquet", "jsonl"):
        workplace.export(tmp_path / form, "--format", form, "--results", tmp_path / "results")
    for name, file in files_of(tmp_path / "parquet", ".parquet").items():
        for reader in READERS:
            types, rows = read(file, reader)
            same(types, rows, json_lines((tmp_path / "jsonl" / name.with_suffix(".jsonl")).read_text()))
        assert name.name != "steps" or any(row["step"] == 2 and row["step_time_ms"] is None for row in rows)
        assert name.name != "runs" or rows[0]["host"] == "\ufffd"


def test_a_table_without_rows_has_all_columns_with_their_types(exports):
    for table in TABLES:
        files = list(exports[0].rglob(f"{table}.parquet"))
        assert len(files) == 3
        assert len({str(pyarrow.parquet.read_schema(file)) for file in files}) == 1
    [empty] = {file for file in exports[0].rglob("device_samples.parquet") if "resumed" in str(file)}
    for reader in READERS:
        types, rows = read(empty, reader)
        assert rows == [] and len(types) == 16 and types["power_watts"] is float


@pytest.mark.parametrize("rows", ["--per-run", "--per-series", "--per-rank"])
def test_results_without_runs_give_all_columns(workplace, tmp_path, rows):
    shutil.copytree(workplace.folder / "results", tmp_path / "results")
    [file] = (tmp_path / "results/lists").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"runs": []}))
    types = []
    for results in (workplace.folder / "results", tmp_path / "results"):
        for words in (["report", rows, "--output", tmp_path / "report.parquet"],
                      ["export", "--format", "parquet", "--force", "--to", tmp_path / "export"]):
            assert workplace.call(*words, "--results", results).returncode == 0
        types.append([read(tmp_path / name)[0] for name in ("report.parquet", "export/runs.parquet")])
    assert types[0] == types[1]
    for reader in READERS:
        assert [read(tmp_path / name, reader) for name in ("report.parquet", "export/runs.parquet")] == [
            (each, []) for each in types[0]]


def test_an_export_replaces_one_of_parquet(workplace):
    workplace.export("replaced", "--format", "parquet")
    refused = workplace.call("export", "--to", "replaced", "--format", "parquet")
    assert refused.returncode == 2 and "--force" in refused.stderr
    assert workplace.call("export", "--to", "replaced", "--force", "resumed").returncode == 0
    assert not list((workplace.folder / "replaced").rglob("*.parquet"))


# --- report ---


def report(workplace, form, *words):
    file = workplace.folder / f"report.{form}"
    done = workplace.call("report", *words, "--output", file)
    assert done.stderr == "" and done.returncode in (0, 1)
    return file


KEYS = "point,+precision.parameters,+train.steps,+strategy.limit_all_gathers,+optimizer.learning_rate,+data.train"
WORDS = [[], ["--per-series"], ["--per-rank"], ["--columns", KEYS], ["--where", "status = failed"],
         ["--group", "ranks"], ["--all"], ["--columns", "point,predicted,error,repeats,scaling"],
         ["--reference", "reference.yaml"],
         ["--results", "a=results", "--results", "b=other", "--class", "tokens_per_second,steps"]]


@pytest.fixture(scope="module")
def with_more(workplace):
    """The workplace, with a file of published figures, and a second person's results."""
    (workplace.folder / "reference.yaml").write_text(
        'experiment: "trial, first"\ntolerance: 1e9\n'
        'points: [{point: "3 × ddp", figures: {tokens_per_second: 1, steps: {value: 6, note: "="}}},'
        ' {point: none, figures: {steps: 1}}]\n')
    shutil.copytree(workplace.folder / "results", workplace.folder / "other")
    return workplace


@pytest.mark.parametrize("words", WORDS, ids=lambda words: " ".join(words[-2:]))
@pytest.mark.parametrize("reader", READERS)
def test_a_report_equals_json_lines(with_more, reader, words):
    expected = json_lines(report(with_more, "jsonl", *words).read_text())
    assert expected == json.loads(report(with_more, "json", *words).read_text())["rows"]
    types, rows = read(report(with_more, "parquet", *words), reader)
    same(types, rows, expected)


def test_every_column_and_key_has_one_type(with_more):
    listed = with_more.call("report", "--columns", "help").stdout.partition("With --per-rank")[0]
    names = [line[2:] for line in listed.splitlines() if line[:2] in ("  ", "* ", "+ ") and line[2:3].isalpha()]
    keys = [line.split("=")[0] for line in with_more.call("complete", "--", "run", "--set", "").stdout.split()
            if "=" in line]
    assert len(names) > 100 and len(keys) > 80
    words = ["--columns", ",".join([*names, *keys])]
    types, rows = read(report(with_more, "parquet", *words))
    same(types, rows, json_lines(report(with_more, "jsonl", *words).read_text()))
    assert {types[name] for name in names if name.endswith(("_ms", "_joules", "_ratio", "_percent"))} <= {int, float}


def test_a_class_may_mix_texts_and_numbers(with_more):
    words = ["--results", "a=results", "--results", "b=other", "--class", "tokens_per_second,strategy"]
    types, rows = read(report(with_more, "parquet", *words))
    expected = json_lines(report(with_more, "jsonl", *words).read_text())
    assert set(types.values()) == {str} and len(rows) == len(expected)
    numbers = 0
    for ours, theirs in zip(rows, expected):
        for name, value in theirs.items():
            is_number = isinstance(value, (int, float))
            numbers += is_number
            assert (float(ours[name]) if is_number else ours[name]) == value
    assert numbers > 2


def test_stdout_gets_the_bytes_of_the_file(workplace):
    done = subprocess.run([workplace.runner, "report", "--format", "parquet"], cwd=workplace.folder, check=True,
                          capture_output=True)
    assert done.stdout == report(workplace, "parquet").read_bytes() and done.stderr == b""


# --- refusals ---


def test_a_terminal_gets_no_bytes(workplace):
    main, terminal = pty.openpty()
    done = subprocess.run([workplace.runner, "report", "--format", "parquet", "--columns", "point"],
                          cwd=workplace.folder, stdout=terminal, stderr=subprocess.PIPE, text=True)
    os.close(terminal)
    os.close(main)
    assert done.returncode == 2
    assert "--format: parquet is not text for a terminal; write a file: --output FILE.parquet" in done.stderr


@pytest.mark.parametrize("words, left", [(["report", "--output", "new.parquet"], "new.parquet"),
                                         (["export", "--format", "parquet", "--to", "new"], "new")])
def test_a_runner_without_the_writer_says_how_it_is_built(workplace, runner, tmp_path, words, left):
    alone = shutil.copy(runner, tmp_path)
    done = subprocess.run([alone, *words, "--results", workplace.folder / "results"], cwd=tmp_path, text=True,
                          stderr=subprocess.PIPE, env=os.environ | {"LD_LIBRARY_PATH": str(runner.parent / "lib")})
    assert done.returncode == 2
    assert "the writer of Parquet is not built; ./fsdp-run in the repository builds it" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["fsdp-run"]


@pytest.mark.parametrize("words", [
    ["report", "--output", "disk/report.parquet"],
    ["report", "--output", "disk/report.jsonl"],
    ["export", "--format", "parquet", "--to", "disk/export"],
    ["export", "--format", "jsonl", "--to", "disk/export"],
], ids=lambda words: " ".join(words[:3]))
def test_a_full_disk_keeps_what_was_there_and_leaves_no_part(workplace, tmp_path, words):
    """The disk is 8 KiB large, less than any of the files."""
    script = """mount -t tmpfs -o size=8k none "$0"/disk && echo old > "$0"/disk/report.parquet && cd "$0" || exit 77
        "$@"; echo $?; find disk -type f; cat disk/report.parquet"""
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, tmp_path, workplace.runner, *words,
         "--results", workplace.folder / "results"], capture_output=True, text=True)
    if done.returncode in (1, 77):
        pytest.skip("no file system may be mounted here")
    assert done.stdout.splitlines() == ["1", "disk/report.parquet", "old"], done.stdout
    assert "No space left on device" in done.stderr


# --- many steps ---

# Its own memory is small, so the largest one is its child's.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def test_memory_does_not_grow_with_the_number_of_steps(workplace, tmp_path):
    """These steps take more than 80 MB if they are all in memory."""
    count = 400_000
    shutil.copytree(workplace.folder / "results", tmp_path / "results")

    def peaks():
        found = []
        for form in ("parquet", "jsonl"):
            words = ["export", "resumed", "--force", "--format", form, "--to", tmp_path / form, "--results",
                     tmp_path / "results"]
            found.append(int(subprocess.check_output([sys.executable, "-c", PEAK, workplace.runner, *words])) >> 10)
        return found

    few = peaks()
    with workplace.database(tmp_path / "results") as database:
        [names] = [[name for _, name, *_ in database.execute("pragma table_info(steps)")]]
        more = ", ".join({"step": "n", "sequence": "n", "step_time_ms": "n / 3.0"}.get(name, name) for name in names)
        database.execute(f"with recursive numbers(n) as (select 100 union all select n + 1 from numbers limit {count}) "
                         f"insert into steps select {more} from numbers, (select * from steps where run = 2 limit 1)")
    many = peaks()
    assert all(after < before + 50 for before, after in zip(few, many)), (few, many)
    [file] = (tmp_path / "parquet").rglob("steps.parquet")
    assert pyarrow.parquet.read_metadata(file).num_row_groups > 10
    steps = polars.read_parquet(file, columns=["attempt", "step"]).rows()
    expected = workplace.rows("select attempt, step from steps where run = 2 order by attempt, rank, step",
                              place=tmp_path / "results")
    assert len(steps) > count and steps == [tuple(row.values()) for row in expected]
    [lines] = (tmp_path / "jsonl").rglob("steps.jsonl")
    with lines.open() as stream:
        assert [(row["attempt"], row["step"]) for row in map(json.loads, stream)] == steps
