"""Predictions of memory and time before runs begin. They are stored with the runs, shown beside
measured figures, and used to skip runs and to begin a search."""

import json
import re

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
def sweep(call, trainer, tmp_path):
    """Runs the experiment. Returns what is said, with single spaces."""

    def run(*words: str, text: str = EXPERIMENT) -> str:
        (tmp_path / "small.yaml").write_text(text)
        done = call("small.yaml", "--trainer", trainer, *words)
        return " ".join((done.stdout + done.stderr).split())

    return run


@pytest.fixture
def double(sweep, rows):
    """Runs the sweep that doubles. Returns what is said, and batch size -> status of all runs."""

    def run(refine: str, *words: str) -> tuple[str, dict[int, str]]:
        said = sweep(*words, text=DOUBLED.replace("REFINE", refine))
        return said, {row["batch_size_per_rank"]: row["status"] for row in rows().values()}

    return run


@pytest.fixture
def rows(call):
    def read() -> dict[str, dict]:
        return {row["point"]: row for row in json.loads(call("report", "small", "--format", "json").stdout)["rows"]}

    return read


def powers_of_two(found: dict[int, str]) -> list[int]:
    return [2**power for power in range(len(found))]


def test_predictions_stand_beside_what_was_measured(call, sweep, rows, trainer):
    right = "The predicted allocated memory was off by 0.0 % (median of 1 run; worst +0.0 %)."
    assert right not in sweep()  # only large errors are told without being asked
    assert right in " ".join(call("report", "small", "--wide").stdout.split())
    fits, does_not = rows()["fits"], rows()["does not"]
    assert fits["memory_allocated_bytes_predicted"] == fits["memory_allocated_bytes_max"]
    assert fits["memory_error_percent"] == 0
    assert fits["step_time_ms_predicted"] is None and fits["step_time_error_percent"] is None
    assert does_not["status"] == "out_of_memory" and does_not["memory_error_percent"] is None
    assert does_not["memory_allocated_bytes_predicted"] > 0.01 * 2**30
    call("calibrate", "small.yaml", "--trainer", trainer, "--only", "fits", "--rounds", "1")
    sweep("--only", "fits", "--rerun")
    assert "step time by" in " ".join(call("report", "small", "--wide").stdout.split())
    assert rows()["fits"]["step_time_ms_predicted"] > 0
    table = call("report", "small", "--columns", "point,predicted,error").stdout
    assert re.search(r"fits +0\.\d+ GiB, \S+ ms +\+0\.0 %, [+-]\d+\.\d %", table), table


def test_what_is_predicted_not_to_fit_is_left_out_if_wanted(sweep, rows):
    assert "does not: left out (--skip-oversized): it is predicted to need" in sweep("--skip-oversized")
    assert rows()["fits"]["status"] == "finished" and rows()["does not"]["status"] == "planned"
    sweep()
    assert rows()["does not"]["status"] == "out_of_memory"


def test_a_refined_search_begins_at_what_is_predicted_to_fit(double):
    said, found = double("true")
    largest, next_one = sorted(found)
    assert next_one == largest + 1 and found == {largest: "finished", next_one: "out_of_memory"}
    saved = re.search(rf"batch.size_per_rank: {largest} is predicted .* saves (\d+) runs", said)
    assert saved and int(saved[1]) > 3
    said, again = double("true")
    assert "2 runs with a result" in said and again == found
    # A range that has changed is walked anew.
    assert double("true, to: 4")[1] == {4: "finished"}
    _, found = double("false")
    assert sorted(found) == powers_of_two(found) and sorted(found)[-2] <= largest < max(found)


def test_a_refined_search_leaves_out_the_next_value_if_wanted(double):
    said, found = double("true", "--skip-oversized")
    [largest] = found
    assert f"batch.size_per_rank={largest + 1} is not run: it is predicted not to fit" in said
    assert double("true", "--skip-oversized")[1] == found
    assert double("true")[1] == {largest: "finished", largest + 1: "out_of_memory"}


def test_doubling_ends_before_what_is_predicted_not_to_fit_if_wanted(double):
    said, fitting = double("false", "--skip-oversized")
    assert set(fitting.values()) == {"finished"} and sorted(fitting) == powers_of_two(fitting)
    assert f"batch.size_per_rank={2 * max(fitting)} is not run: it is predicted not to fit" in said
    # Without the option, all values on the way are run. They stay, whatever is predicted.
    _, found = double("false")
    assert found == fitting | {2 * max(fitting): "out_of_memory"} and len(found) > 3
    assert double("false", "--skip-oversized")[1] == found
