"""Predictions of memory and time before runs begin. They are stored with the runs, shown beside
measured figures, and used to skip runs and to begin a search."""

import json
import re
import stat
import subprocess

import pytest
from few_games import few_games

EXPERIMENT = """experiment: small
base:
  device: cpu
  memory_limit_gib: 0.01
  model.config: {num_hidden_layers: 2, hidden_size: 64, intermediate_size: 96, num_attention_heads: 2,
                 num_key_value_heads: 2, vocab_size: 1024}
  data: {kind: chess, train: GAMES, sequence_length: 16}
  train.steps: 3
points:
  - {name: fits, strategy: {kind: single}}
  - {name: does not, strategy: {kind: single}, batch.size_per_rank: 500}
""".replace("GAMES", str(few_games()))
DOUBLED = EXPERIMENT[:EXPERIMENT.index("points:")] + """points:
  - {name: one, strategy: {kind: single}}
sweep: {double: {batch.size_per_rank: {from: 1, refine: REFINE}}}
"""


@pytest.fixture
def fsdp_run(request, trainer, tmp_path):
    runner = request.config.getoption("--runner").resolve()

    def run(*words: str, text: str = EXPERIMENT, program=trainer) -> str:
        (tmp_path / "small.yaml").write_text(text)
        done = subprocess.run([runner, "small.yaml", "--trainer", program, *words], cwd=tmp_path,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def rows(request, tmp_path):
    runner = request.config.getoption("--runner").resolve()

    def read() -> dict[str, dict]:
        text = subprocess.run([runner, "report", "small", "--format", "json"], cwd=tmp_path, check=True,
                              capture_output=True, text=True).stdout
        return {row["point"]: row for row in json.loads(text)["rows"]}

    return read


def test_predictions_stand_beside_what_was_measured(request, fsdp_run, rows, trainer, tmp_path):
    said = fsdp_run()
    assert "The predicted allocated memory was off by 0.0 % (median of 1 run; worst +0.0 %)." in " ".join(said.split())
    fits = rows()["fits"]
    assert fits["memory_allocated_bytes_predicted"] == fits["memory_allocated_bytes_max"]
    assert fits["memory_error_percent"] == 0
    assert fits["step_time_ms_predicted"] is None and fits["step_time_error_percent"] is None
    does_not = rows()["does not"]
    assert does_not["status"] == "out_of_memory" and does_not["memory_error_percent"] is None
    assert does_not["memory_allocated_bytes_predicted"] > 0.01 * 2**30
    runner = request.config.getoption("--runner").resolve()
    subprocess.run([runner, "calibrate", "small.yaml", "--trainer", trainer, "--only", "fits", "--rounds", "1"], cwd=tmp_path,
                   check=True)
    assert "step time by" in " ".join(fsdp_run("--only", "fits", "--rerun").split())
    assert rows()["fits"]["step_time_ms_predicted"] > 0
    table = subprocess.run([runner, "report", "small", "--columns", "point,predicted,error"], cwd=tmp_path,
                           check=True, capture_output=True, text=True).stdout
    assert re.search(r"fits +0\.\d+ GiB, \S+ ms +\+0\.0 %, [+-]\d+\.\d %", table), table


def test_what_is_predicted_not_to_fit_is_left_out_if_wanted(fsdp_run, rows):
    said = fsdp_run("--skip-oversized")
    assert "does not: left out (--skip-oversized): it is predicted to need" in said
    assert rows()["fits"]["status"] == "finished" and rows()["does not"]["status"] == "planned"
    fsdp_run()
    assert rows()["does not"]["status"] == "out_of_memory"


def batches(rows: dict[str, dict]) -> dict[int, str]:
    return {row["batch_size_per_rank"]: row["status"] for row in rows.values()}


@pytest.fixture
def trainer_that_cannot_plan(trainer, tmp_path):
    program = tmp_path / "trainer"
    program.write_text(f'#!/bin/sh\ncase "$1" in --plan) exit 2 ;; esac\nexec {trainer} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_a_refined_search_begins_at_what_is_predicted_to_fit(fsdp_run, rows, trainer_that_cannot_plan):
    text = DOUBLED.replace("REFINE", "true")
    said = fsdp_run(text=text)
    found = batches(rows())
    [largest, next_one] = sorted(found)
    assert next_one == largest + 1 and list(found.values()) == ["finished", "out_of_memory"]
    saved = re.search(rf"batch.size_per_rank: {largest} is predicted .* saves (\d+) runs", said)
    assert saved and int(saved[1]) > 3
    assert "2 runs with a result" in fsdp_run(text=text)
    assert batches(rows()) == found
    # A search without predictions finds the same.
    fsdp_run("--results", "other", text=text, program=trainer_that_cannot_plan)
    other = fsdp_run("--results", "other", text=text)
    assert f"largest batch.size_per_rank that fits: {largest} ({next_one} does not)" in other


def test_doubling_shows_all_values_on_the_way(fsdp_run, rows):
    fsdp_run(text=DOUBLED.replace("REFINE", "false"))
    found = batches(rows())
    assert sorted(found) == [2**power for power in range(len(found))] and len(found) > 3


def test_a_refined_search_leaves_out_the_next_value_if_wanted(fsdp_run, rows):
    said = fsdp_run("--skip-oversized", text=DOUBLED.replace("REFINE", "true"))
    [largest] = batches(rows())
    assert f"batch.size_per_rank={largest + 1} is not run: it is predicted not to fit" in said
    fsdp_run("--skip-oversized", text=DOUBLED.replace("REFINE", "true"))
    assert list(batches(rows())) == [largest]
    fsdp_run(text=DOUBLED.replace("REFINE", "true"))
    assert batches(rows()) == {largest: "finished", largest + 1: "out_of_memory"}


def test_a_range_that_has_changed_is_walked_anew(fsdp_run, rows):
    fsdp_run(text=DOUBLED.replace("REFINE", "true"))
    [largest, _] = sorted(batches(rows()))
    fsdp_run(text=DOUBLED.replace("REFINE", "true, to: 4"))
    assert batches(rows()) == {4: "finished"}
    fsdp_run(text=DOUBLED.replace("REFINE", "false"))
    found = sorted(batches(rows()))
    assert found == [2**power for power in range(len(found))] and found[-2] <= largest < found[-1]


def test_doubling_ends_before_what_is_predicted_not_to_fit_if_wanted(fsdp_run, rows):
    said = fsdp_run("--skip-oversized", text=DOUBLED.replace("REFINE", "false"))
    found = batches(rows())
    assert set(found.values()) == {"finished"} and sorted(found) == [2**power for power in range(len(found))]
    assert f"batch.size_per_rank={2 * max(found)} is not run: it is predicted not to fit" in said


def test_measured_values_stay_in_the_table_whatever_is_predicted(fsdp_run, rows):
    fsdp_run(text=DOUBLED.replace("REFINE", "false"))
    found = batches(rows())
    assert list(found.values()).count("out_of_memory") == 1
    fsdp_run("--skip-oversized", text=DOUBLED.replace("REFINE", "false"))
    assert batches(rows()) == found
