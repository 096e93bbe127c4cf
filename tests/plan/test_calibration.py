"""`fsdp-run calibrate`, and the step times of plans after it.
tests/benchmark/predicted_step_times.py measures the errors of these times."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache

import pytest
from few_games import few_games

EXPERIMENT = """experiment: small
base:
  device: cpu
  model.config: {num_hidden_layers: 3, hidden_size: 64, intermediate_size: 96, num_attention_heads: 2,
                 num_key_value_heads: 2, vocab_size: 1024}
  data: {kind: chess, train: GAMES, sequence_length: 16}
  train.steps: 2
  batch.size_per_rank: 2
points:
  - {name: one, strategy: {kind: single}}
  - {name: deeper, strategy: {kind: single}, model.config.num_hidden_layers: 9}
  - {name: fsdp, strategy: {kind: fsdp, ranks: 2}}
  - {name: offload, strategy: {kind: single, offload: optimizer}}
""".replace("GAMES", str(few_games()))


@pytest.fixture
def fsdp_run(call, trainer, tmp_path):
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return lambda command, *words, program=trainer, fails_with=0: call(
        command, "small.yaml", "--trainer", program, *words, fails_with=fails_with)


@pytest.fixture(scope="module")
def calibrations_of(runner, trainer, tmp_path_factory):
    """Returns the folder with the calibrations of a point. Each point is calibrated once."""

    @cache
    def folder(point: str):
        work = tmp_path_factory.mktemp(point)
        (work / "small.yaml").write_text(EXPERIMENT)
        subprocess.run([runner, "calibrate", "small.yaml", "--trainer", trainer, "--only", point, "--rounds", "1"],
                       cwd=work, env=os.environ | {"TMPDIR": str(work)}, check=True)
        return work / "results/calibrations"

    return folder


@pytest.fixture
def calibrated(calibrations_of, tmp_path):
    """Brings a point's calibration into the test's results and returns its file."""

    def bring(point: str):
        kept = calibrations_of(point)
        shutil.copytree(kept, tmp_path / "results/calibrations", dirs_exist_ok=True)
        [file] = kept.glob("*/*.json")
        return tmp_path / "results/calibrations" / file.relative_to(kept)

    return bring


@pytest.fixture
def plans(fsdp_run):
    return lambda *words: {row["point"]: row for row in json.loads(fsdp_run("plan", "--format", "json", *words).stdout)}


def test_calibrated_runs_have_step_times(fsdp_run, plans):
    assert all(row["step_time_ms"] is None for row in plans().values())
    assert "one, deeper" in fsdp_run("calibrate", "--only", "one", "--only", "deeper", "--rounds", "1").stdout
    planned = plans()
    assert planned["fsdp"]["step_time_ms"] is None
    assert planned["one"]["communication_exposed_ms"] == 0
    # It has three times as many blocks, of the same measured times.
    assert planned["deeper"]["step_time_ms"] > planned["one"]["step_time_ms"] > 0
    more_micro_batches = plans("--set", "batch.gradient_accumulation_steps=4")
    assert more_micro_batches["one"]["step_time_ms"] > planned["one"]["step_time_ms"]
    other_model = plans("--set", "model.config.hidden_size=128")
    assert other_model["one"]["step_time_ms"] is None


def test_a_price_gives_the_cost_of_each_run_and_of_all(fsdp_run, plans, calibrated):
    def missing(*words):
        text = " ".join(fsdp_run("plan", "--only", "one", *words, "--price", "2").stdout.split())
        return text.partition("--price does not know, for each run, ")[2]

    no_time = "the time of a step: run fsdp-run calibrate on these devices"
    no_steps = "the number of steps: set train.steps instead of train.epochs"
    assert missing().startswith(no_time + ".")
    assert missing("--set", "train.epochs=1").startswith(f"{no_time}, and {no_steps}.")
    calibrated("one")
    calibrated("fsdp")
    assert missing("--set", "train.epochs=1").startswith(no_steps + ".")
    assert missing() == ""
    words = ("--only", "one", "--only", "fsdp", "--set", "train.steps=1000000")
    planned = plans(*words, "--price", "2")
    for point, ranks in (("one", 1), ("fsdp", 2)):
        row = planned[point]
        assert row["hours"] == pytest.approx(1e6 * row["step_time_ms"] / 3.6e6)
        assert row["cost"] == pytest.approx(2 * ranks * row["hours"])
    text = " ".join(fsdp_run("plan", *words, "--price", "2").stdout.split())
    said = float(text.split("All runs, with their repeats, cost ")[1].split()[0])
    assert said == pytest.approx(sum(row["cost"] for row in planned.values()), rel=0.01)
    assert all(row["cost"] is None and row["hours"] > 0 for row in plans(*words).values())


def test_ranks_are_calibrated_together(fsdp_run, plans, calibrated):
    calibrated("fsdp")
    [planned] = plans("--only", "fsdp").values()
    assert planned["step_time_ms"] > planned["communication_exposed_ms"] > 0
    # A second calibration starts from the first one's results.
    fsdp_run("calibrate", "--only", "fsdp", "--rounds", "1")


def with_time(calibration: dict, time_ms: float) -> dict:
    calibration["times"][0]["time_ms"] = time_ms
    return calibration


NOT_USED = [  # a change of a valid calibration, or other contents, and why it is not used
    (lambda c: c | {"device": "another"}, "was measured on 'another', not on '"),
    (lambda c: c | {"libtorch": "1.0.0"}, "was measured with libtorch 1.0.0, not 2."),
    (lambda c: c | {"ranks": 8}, "was measured by 8 ranks, not by 1"),
    (lambda c: c | {"threads": 63}, "was measured with 63 threads a rank, not "),
    (lambda c: c | {"threads": 0}, "'threads': 0 is not at least 1"),
    (lambda c: with_time(c, -5), "'time_ms': -5 is not greater than 0"),
    (lambda c: with_time(c, 0), "'time_ms': 0 is not greater than 0"),
    (lambda c: with_time(c, 1e300), "'time_ms': 1e+300 is not greater than 0"),
    (lambda c: c | {"times": [time | {"rows": 0} for time in c["times"]]}, "'rows': 0 is not at least 1"),
    *((text, "") for text in ("", "{", '{"device": 3}', '{"times": [{"work": "optimizer"}]}')),
]


def test_a_calibration_that_is_damaged_impossible_or_of_others_is_not_used(fsdp_run, plans, calibrated):
    file = calibrated("one")
    whole = file.read_text()
    for change, why in NOT_USED:
        file.write_text(change if isinstance(change, str) else json.dumps(change(json.loads(whole))))
        [planned] = plans("--only", "one").values()
        assert planned["step_time_ms"] is None, why
        [line] = [line for line in planned["assumptions"] if "step times are not known" in line]
        assert str(file) in line and why in line
    file.unlink()
    os.mkfifo(file)  # nobody waits for it
    table = fsdp_run("plan", "--only", "one").stdout
    assert "step times are not known" in " ".join(table.split()) and file.name in table
    file.unlink()
    file.write_text(whole)
    assert plans("--only", "one")["one"]["step_time_ms"] > 0


def test_the_threads_of_a_plan_are_those_that_its_ranks_would_have(fsdp_run, plans, monkeypatch):
    """A limit on memory does not hold for the calibration."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    fsdp_run("calibrate", "--only", "one", "--rounds", "1", "--set", "memory_limit_gib=0.001")
    assert plans("--only", "one")["one"]["step_time_ms"] > 0
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    [planned] = plans("--only", "one").values()
    assert planned["step_time_ms"] is None
    assert any("with 1 thread a rank, not 3" in line for line in planned["assumptions"])


@pytest.mark.parametrize("words, rounds", [((), "3"), (("--rounds", "7"), "7")])
def test_the_trainer_is_told_the_number_of_rounds(fsdp_run, tmp_path, words, rounds):
    program = tmp_path / "trainer"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/arguments\n')
    program.chmod(0o755)
    fsdp_run("calibrate", "--only", "one", *words, program=program)
    assert (tmp_path / "arguments").read_text().split()[-2:] == ["--rounds", rounds]


def test_a_calibration_that_fails_says_where_its_log_is(fsdp_run, tmp_path):
    done = fsdp_run("calibrate", "--only", "one", program="/bin/false", fails_with=1)
    [log] = tmp_path.glob("results/calibrations/*/*/rank0.log")
    assert "calibrating one failed" in done.stderr and str(log) in done.stderr
    assert not list(tmp_path.glob("results/calibrations/*/*.json"))


def test_an_offloaded_optimizer_is_timed_on_the_host_alone(fsdp_run, tmp_path):
    """Modules are timed in steps of the device's own optimizer. Its time must be left out."""
    fsdp_run("calibrate", "--only", "offload", "--rounds", "1")
    [file] = tmp_path.glob("results/calibrations/*/*.json")
    widths = {}
    for time in json.loads(file.read_text())["times"]:
        widths.setdefault(time["work"], set()).add(time["width"])
    assert widths["optimizer"] == widths["conversion"]


def test_a_planner_ends_with_the_program_that_started_it(trainer):
    """It ends even if its standard input stays open."""
    requests, held = os.pipe()
    starts = f"import subprocess; subprocess.Popen([{str(trainer)!r}, '--plan']).wait()"
    parent = subprocess.Popen([sys.executable, "-c", starts], stdin=requests, stdout=subprocess.PIPE)
    os.write(held, b"no request\n")
    assert b"error" in parent.stdout.readline()
    parent.kill()
    assert parent.stdout.read() == b""
    parent.wait()
    os.close(requests)
    os.close(held)


def test_one_calibration_that_fails_does_not_end_the_others(fsdp_run, trainer, tmp_path):
    program = tmp_path / "trainer"
    program.write_text(f'#!/bin/sh\ngrep -q "kind: fsdp" "$4" && exit 1\nexec {trainer} "$@"\n')
    program.chmod(0o755)
    done = fsdp_run("calibrate", "--only", "one", "--only", "fsdp", "--only", "offload", "--rounds", "1",
                    program=program, fails_with=1)
    assert "calibrating fsdp failed" in done.stderr and "calibrating one" not in done.stderr
    assert done.stdout.count("calibrated in") == len(list(tmp_path.glob("results/calibrations/*/*.json"))) == 2
