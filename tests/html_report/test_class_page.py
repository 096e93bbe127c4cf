"""The page of `fsdp-run report --class` for merged results."""

import json
import re
import shutil
import subprocess

import pytest
from results import run_program
from window import layout_problems, open_everything

EXPERIMENT = {
    "experiment": "lab",
    "base": {"device": "cpu", "train.steps": 6},
    "points": [
        {"name": "1 GPU", "strategy": {"kind": "single"}},
        {"name": "4xFSDP, batch 8", "strategy": {"kind": "fsdp", "ranks": 4}, "batch.size_per_rank": 8},
    ],
}
TORCH = {"alice": "2.11.0", "bob": "2.9.1", "carol": "2.11.0"}


@pytest.fixture(scope="module")
def class_page(runner, stub_trainer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    (folder / "lab.yaml").write_text(json.dumps(EXPERIMENT))
    run_program(runner, folder, "lab.yaml", "--trainer", stub_trainer)
    for number, (name, torch) in enumerate(TORCH.items()):
        shutil.copytree(folder / "results", folder / name)
        for file in (folder / name).glob("runs/*/*/attempt-1/launch.json"):
            start = json.loads(file.read_text())
            start["started_unix_ms"] += number  # no copies of each other
            file.write_text(json.dumps(start))
        for file in (folder / name).glob("runs/*/*/attempt-1/events.*.jsonl"):
            file.write_text(re.sub('(?<="torch_version":")[^"]*', torch, file.read_text()))
    listed = json.loads((folder / "carol/lists/lab.json").read_text())
    listed["runs"] = [run for run in listed["runs"] if "1-GPU" not in run]
    (folder / "carol/lists/lab.json").write_text(json.dumps(listed))
    (folder / "dave").mkdir()
    merged = subprocess.run([runner, "merge", *TORCH, "dave", "--results", "all"], cwd=folder, text=True,
                            capture_output=True)
    assert merged.returncode == 1 and "dave: there is no results.sqlite" in merged.stderr
    run_program(runner, folder, "report", "lab", "--results", "all", "--class", "tokens/s,memory", "--output",
                "class.html", "--title", "Lab 3")
    return folder / "class.html"


@pytest.mark.parametrize("width", [360, 1280])
def test_it_shows_each_figure_of_each_person_and_what_differs(open_report, class_page, width):
    page = open_report(class_page, width=width)
    assert page.locator("h1").text_content() == "Lab 3"
    assert page.locator("#comparison h3").all_text_contents() == ["tokens/s", "memory GiB a rank", "Warnings"]
    tables = page.locator("table.comparison")
    assert tables.count() == 2
    speeds = tables.first.locator("tbody tr")
    cells = [row.locator("th, td").all_text_contents() for row in speeds.all()]
    assert [row[0] for row in cells] == ["alice", "bob", "carol", "median", "least", "greatest"]
    assert [cell.startswith("*") for cell in cells[1][1:]] == [True, True]
    assert cells[2][1] == "-" and cells[2][2] == cells[0][2]
    notes = page.locator(".notes li").all_text_contents()
    assert notes == ["carol has no result for 1 of 2 points: 1 GPU (not in the list).",
                     "* PyTorch 2.9.1, not 2.11.0: bob."]
    assert "(alice, bob)" in page.locator(".warnings").text_content()
    open_everything(page)
    assert layout_problems(page) == []


def test_each_figure_is_sorted_by_itself(open_report, class_page):
    page = open_report(class_page)
    memory = page.locator("table.comparison").nth(1)
    for _ in range(2):
        memory.get_by_role("button", name="source").click()
    names = [table.locator("tbody th").all_text_contents()
             for table in page.locator("table.comparison").all()]
    as_they_are = ["alice", "bob", "carol", "median", "least", "greatest"]
    assert names == [as_they_are, sorted(as_they_are, reverse=True)]
