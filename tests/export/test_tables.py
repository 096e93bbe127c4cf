"""csv and jsonl have every figure as SQLite has it."""

import csv
import json

import pytest

TABLES = ["steps", "evaluations", "checkpoints", "device_samples"]
RUNS = [1, 2, 3]


def read_csv(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


def read_json_lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def as_csv(value):
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def same(exported, stored):
    """True if a text of CSV is the value in SQLite."""
    if isinstance(stored, float) and exported != "":
        return float(exported) == stored
    return exported == ("" if stored is None else str(stored))


def of_run(workplace, table, run):
    order = "step" if table == "steps" else "sequence"
    return workplace.rows(f"select * from {table} where run = ? order by attempt, rank, {order}", run)


@pytest.mark.parametrize("table", TABLES)
def test_csv_equals_sqlite(workplace, table):
    export = workplace.export("csv")
    compared = 0
    for run in RUNS:
        stored = of_run(workplace, table, run)
        exported = read_csv(workplace.run_folder(export, run) / f"{table}.csv")
        assert len(exported) == len(stored)
        for theirs, ours in zip(stored, exported, strict=True):
            del theirs["run"]
            assert set(ours) == set(theirs)
            assert all(same(ours[name], theirs[name]) for name in theirs), (theirs, ours)
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("table", TABLES)
def test_json_lines_equal_sqlite(workplace, table):
    export = workplace.export("jsonl", "--format", "jsonl")
    for run in RUNS:
        stored = of_run(workplace, table, run)
        for row in stored:
            del row["run"]
        assert read_json_lines(workplace.run_folder(export, run) / f"{table}.jsonl") == stored


def test_the_runs_have_their_comparison_and_where_they_come_from(workplace):
    stored = workplace.rows("select c.*, cpu_cores, memory_total_bytes, environment from comparison c "
                            "left join attempts a on a.run = c.run and a.attempt = c.attempt")
    assert len(stored) == 4
    exported = read_json_lines(workplace.export("jsonl", "--format", "jsonl") / "runs.jsonl")
    from_csv = read_csv(workplace.export("csv") / "runs.csv")
    for theirs, ours, text in zip(stored, exported, from_csv, strict=True):
        assert list(ours) == list(text)
        for name, value in theirs.items():
            # A missing text is exported as an empty one.
            assert ours[name] == value or (not ours[name] and value is None), name
            assert same(text[name], value) or (text[name] in ("", "0", "{}") and value is None), name
    assert [row["status"] for row in exported] == ["finished", "finished", "failed", "planned"]
    assert exported[2]["reason"] == from_csv[2]["reason"] == 'rank 0: a "reason"'


def test_experiments_and_runs_are_chosen_by_name_file_number_or_hash(workplace):
    def points(*words):
        return [row["point"] for row in read_csv(workplace.export("chosen", *words) / "runs.csv")]

    every = ["3 × ddp", "resumed", 'said "no", and ended', "not run"]
    assert points() == points("trial, first") == points("experiment.yaml") == every
    [hash8] = [row["hash8"] for row in workplace.rows("select hash8 from comparison where run = 1")]
    assert points("resumed", hash8) == every[:2]
    refused = workplace.call("export", "resumd", "--to", "new")
    assert refused.returncode == 2 and "did you mean 'resumed'?" in refused.stderr
    assert not (workplace.folder / "new").exists()


def test_a_run_that_left_its_list_is_refused(workplace):
    lists = (workplace.folder / "results/lists").iterdir()
    [file] = [file for file in lists if "/not-run" in file.read_text()]
    text = file.read_text()
    file.write_text(json.dumps(json.loads(text) | {"runs": []}))
    refused = workplace.call("export", "not run", "--to", "left")
    file.write_text(text)
    assert refused.returncode == 2 and "is no longer in its experiment's list" in refused.stderr


def test_nothing_is_overwritten_without_force(workplace):
    folder = workplace.export("kept", "resumed")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    refused = workplace.call("export", "--to", "kept")
    assert refused.returncode == 2 and "--force" in refused.stderr
    assert before == {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert workplace.call("export", "--to", "kept", "--force", "1").returncode == 0
    assert len(read_csv(folder / "runs.csv")) == 1
    assert not before.keys() & {file for file in folder.rglob("steps.csv")}  # of another run
    other = workplace.folder / "mine"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    refused = workplace.call("export", "--to", "mine", "--force")
    assert refused.returncode == 2 and "other things" in refused.stderr
    assert [file.name for file in other.iterdir()] == ["thesis.tex"]
