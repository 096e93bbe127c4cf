"""docs/notebook.ipynb shows results of the stub trainer: runs that finished, one that was resumed, and one that ran out
of memory in its second attempt, earlier than the first attempt ended."""

import csv
import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTEBOOK = DOCS / "notebook.ipynb"
EXPERIMENT = """
experiment: trial
base: {device: cpu, train.steps: 6}
points:
  - {name: 1 GPU}
  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2}}
  - {name: resumed, resume: auto, checkpoint.every_steps: 2}
  - {name: too large, batch.size_per_rank: 9}
"""
SHOW = """
import json
print(json.dumps({
    "runs": runs.to_dict("records"),
    "memory": [memory.get_xlabel(), memory.get_ylabel(), memory.collections[0].get_offsets().tolist(),
               [text.get_text() for text in memory.texts]],
    "losses": [losses.get_xlabel(), losses.get_ylabel(), [text.get_text() for text in losses.get_legend().texts]],
    "lines": {line.get_label(): [list(map(float, point)) for point in line.get_xydata()] for line in losses.lines}}))
"""


@pytest.fixture
def results(call, stub_trainer, tmp_path):
    file = tmp_path / "trial.yaml"
    file.write_text(EXPERIMENT)
    call(file, "--trainer", stub_trainer, fails_with=1, STUB_RULES="point=resumed,step=4,kill=15; point=too,step=4,exit=1")
    call(file, "--trainer", stub_trainer, "--only", "resumed")
    call(file, "--trainer", stub_trainer, "--rerun", "--only", "too large",
         STUB_RULES="batch_above=8,step=2,out_of_memory=no room")
    return tmp_path / "results"


def execute(results, tmp_path, monkeypatch):
    """Returns the notebook with its outputs, and what its variables hold at the end."""
    for variable in ("IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    [settings] = [cell for cell in notebook.cells if cell.id == "settings"]
    settings.source += f"\nresults, experiment = Path({str(results)!r}), 'trial'"
    notebook.cells.append(nbformat.v4.new_code_cell(SHOW))
    NotebookClient(notebook, resources={"metadata": {"path": str(DOCS)}}).execute()
    [shown] = notebook.cells[-1].outputs
    return {cell.id: cell for cell in notebook.cells}, json.loads(shown.text)


def test_the_table_and_the_figures_have_the_figures_of_the_export(call, results, tmp_path, monkeypatch):
    cells, shown = execute(results, tmp_path, monkeypatch)
    call("export", "--to", "csv")
    with (tmp_path / "csv/runs.csv").open(newline="") as stream:
        runs = list(csv.DictReader(stream))
    assert [run["status"] for run in runs] == ["finished", "finished", "finished", "out_of_memory"]
    assert [(run["point"], run["strategy"], run["ranks"], run["status"]) for run in shown["runs"]] == [
        (run["point"], run["strategy"], int(run["ranks"]), run["status"]) for run in runs]

    points = [[int(run["memory_allocated_bytes_max"]) / 2**30, float(run["tokens_per_second"])] for run in runs]
    names = ["1 GPU", "2xFSDP", "resumed"]
    assert [[run["memory_gib"], run["tokens_per_second"]] for run in shown["runs"]][:3] == points[:3]
    assert shown["memory"] == ["peak of allocated memory, fullest rank [GiB]", "tokens/s of all ranks", points[:3], names]

    assert shown["losses"] == ["step", "loss", [*names, "too large"]]
    losses = {}
    for run in runs:
        [file] = (tmp_path / "csv").glob(f"*/*{run['hash8']}/steps.csv")
        with file.open(newline="") as stream:  # later attempts are last
            losses[run["point"]] = {float(step["step"]): float(step["loss"]) for step in csv.DictReader(stream)
                                    if run["point"] == "resumed" or step["attempt"] == run["attempt"]}
    assert shown["lines"] == {name: [list(point) for point in sorted(losses[name].items())] for name in losses}
    assert [len(shown["lines"][name]) for name in (*names, "too large")] == [6, 6, 6, 1]

    [table] = cells["table"].outputs
    assert "out_of_memory" in table.data["text/html"]
    assert all("image/png" in cells[name].outputs[-1].data for name in ("memory", "losses"))


def test_the_notebook_is_short_and_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 12
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 5 and not any(cell.outputs or cell.execution_count for cell in code)


def test_it_reads_the_results_of_readmes_first_command():
    [settings] = [cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.id == "settings"]
    names = {}
    exec(settings, names)
    assert (DOCS / names["results"]).resolve() == DOCS.parent / "results" and names["experiment"] == "lab"
