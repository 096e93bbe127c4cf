"""Plans of random runs equal the runs' reports to the byte: how much memory, when and for what."""

import random
import shutil
from pathlib import Path

import pytest
from hostile.event_model import MS_BY_PART
from planning import plans, request_of
from random_runs import VOCABULARY, in_fp64, random_spec, write_articles
from trainer import check_ended_well, of_kind, read_events, start, wait_for, wait_until_well_ended

CHECKPOINT_TOLERANCE = 1024  # bytes, for figures in trainer.json that only a run knows


def reported_peak(folder: Path, ranks: int) -> dict:
    """Returns the peak of the rank with the highest peak."""
    peaks = [of_kind("memory_peak", read_events(folder, rank))[-1] for rank in range(ranks)]
    return max(peaks, key=lambda peak: peak["memory_allocated_bytes_max"])


def moment(peak: dict) -> tuple:
    return peak["phase"], peak["unit"]


def composition(peak: dict) -> dict:
    return {name: value for name, value in peak.items() if name.endswith("_bytes")}


def checkpoint_bytes(folder: Path) -> int:
    """Returns the size of the last checkpoint, or 0 if there is none."""
    sizes = [event["size_bytes"] for event in of_kind("checkpoint", read_events(folder))]
    return sizes[-1] if sizes else 0


def parameter_counts(figures: dict) -> tuple:
    return figures["parameter_count"], figures["trained_parameter_count"]


def check_accounts(folder: Path, ranks: int) -> None:
    """Checks that the parts of accounted steps add up to the steps, on every rank."""
    for rank in range(ranks):
        events = read_events(folder, rank)
        times = {event["step"]: event["step_time_ms"] for event in of_kind("step", events)}
        accounts = of_kind("step_account", events)
        assert len(accounts) == len(times)
        for account in accounts:
            parts = [account[name] for name in MS_BY_PART]
            assert sum(parts) == pytest.approx(times[account["step"]], rel=1e-6)
            assert account["step_time_ms"] == pytest.approx(times[account["step"]], rel=1e-6)
            assert min(parts) > -1e-6


def keep_prepared(folder: Path, results: Path) -> None:
    """Copies the run's prepared data, if it made any, to the results, where other runs find it."""
    if (folder / "prepared").exists():
        shutil.copytree(folder / "prepared", results / "prepared", dirs_exist_ok=True)


@pytest.mark.quick
@pytest.mark.parametrize("precision", ["any", "fp64"])
def test_plan_is_what_the_run_reports(trainer, seed, count, tmp_path, precision):
    draw = random.Random(f"{seed} fp64" if precision == "fp64" else seed)
    count = count if precision == "any" else max(1, count // 5)
    articles = write_articles(tmp_path / "articles.csv", draw)
    results = tmp_path / "results"
    unequal, moments, compositions, checkpoints = [], [], [], []
    for number in range(count):
        spec = random_spec(draw, articles)
        spec = spec if precision == "any" else in_fp64(spec)
        folder = results / "runs" / "random" / str(number)
        processes = start(trainer, spec, folder)
        wait_until_well_ended(processes, folder)
        keep_prepared(folder, results)
        [plan] = plans(trainer, [request_of(spec, results)])
        assert parameter_counts(plan) == parameter_counts(read_events(folder)[0]), spec
        check_accounts(folder, spec["strategy"]["ranks"])
        peak = reported_peak(folder, spec["strategy"]["ranks"])
        assert sum(composition(peak).values()) == peak["memory_allocated_bytes_max"]
        planned = plan["peak"]
        reported_bytes = peak["memory_allocated_bytes_max"]
        difference = planned["memory_allocated_bytes_max"] - reported_bytes
        if difference:
            unequal.append((number, difference, reported_bytes, moment(planned), moment(peak), spec))
        if moment(planned) != moment(peak):
            moments.append((number, moment(planned), moment(peak)))
        if composition(planned) != composition(peak):
            compositions.append((number, composition(planned), composition(peak)))
        written = checkpoint_bytes(folder)
        if abs(plan["checkpoint_bytes"] - written) > CHECKPOINT_TOLERANCE:
            checkpoints.append((number, plan["checkpoint_bytes"], written, spec))
        shutil.rmtree(folder)
    print(f"of {count}: bytes differ in {len(unequal)}, moments in {len(moments)}, compositions in "
          f"{len(compositions)}")
    for differing in (unequal, moments, compositions, checkpoints):
        for case in differing:
            print(case)
    assert not unequal and not moments and not compositions and not checkpoints


@pytest.mark.parametrize("changes", [
    {"checkpoint": {"at_end": True, "state_dict": "full"}},
    {"checkpoint": {"at_end": True, "state_dict": "sharded"}, "precision": "bf16_true"},
    {"checkpoint": {"at_end": True, "state_dict": "full"}, "optimizer": {"kind": "sgd", "momentum": 0.9}},
    {"checkpoint": {"at_end": True, "state_dict": "sharded"}, "strategy": {"kind": "ddp", "ranks": 2}},
    {"checkpoint": {"at_end": True, "state_dict": "sharded"}, "optimizer": {"state_dtype": "int8"},
     "strategy": {"kind": "fsdp", "ranks": 3}},
    {"checkpoint": {"at_end": True, "merge": True}, "method": "lora"},
    {"checkpoint": {"at_end": True, "merge": True, "merge_dtype": "bf16"}, "method": "qlora"},
])
def test_the_size_of_a_checkpoint_is_planned(trainer, tmp_path, changes):
    """The size includes every file of every rank."""
    spec = {"model": {"config": {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 40,
                                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCABULARY}},
            "data": {"kind": "chess", "sequence_length": 16}, "batch": {"size_per_rank": 1}, "precision": "fp32",
            "strategy": {"kind": "fsdp", "ranks": 3}, "train": {"steps": 2, "warmup_steps_excluded": 0},
            "device": "cpu", "threads_per_rank": 1} | changes
    folder = tmp_path / "run"
    wait_until_well_ended(start(trainer, spec, folder), folder)
    [plan] = plans(trainer, [request_of(spec, tmp_path)])
    assert abs(plan["checkpoint_bytes"] - checkpoint_bytes(folder)) <= CHECKPOINT_TOLERANCE


def test_a_run_without_checkpoints_writes_none(trainer, tmp_path):
    spec = {"model": {"config": {"num_hidden_layers": 1, "vocab_size": VOCABULARY}}, "data": {"kind": "chess"},
            "strategy": {"kind": "single", "ranks": 1}, "train": {"steps": 2}, "device": "cpu"}
    [plan] = plans(trainer, [request_of(spec, tmp_path)])
    assert plan["checkpoint_bytes"] == 0


OUT_OF_MEMORY = 3


def fits(trainer: Path, spec: dict, folder: Path) -> bool:
    processes = start(trainer, spec, folder)
    wait_for(processes)
    if any(process.returncode == OUT_OF_MEMORY for process in processes):
        return False
    check_ended_well(processes, folder)
    return True


def limit_near(peak_bytes: int, is_enough: bool, draw: random.Random) -> int:
    """Returns a limit on the given side of the peak: next to it, within 2 % or within 30 %."""
    least = peak_bytes if is_enough else peak_bytes - 1
    direction = 1 if is_enough else -1
    return least + direction * draw.choice([0, round(peak_bytes * draw.uniform(0, 0.02)),
                                            round(peak_bytes * draw.uniform(0, 0.3))])


@pytest.mark.quick
def test_what_fits_under_a_limit_fits_and_nothing_else(trainer, seed, count, tmp_path):
    draw = random.Random(seed + 1)
    articles = write_articles(tmp_path / "articles.csv", draw)
    results = tmp_path / "results"
    said, wrong = {True: 0, False: 0}, []
    for number in range(count):
        spec = random_spec(draw, articles)
        # A first run prepares the data, so its widths are known.
        folder = results / "runs" / "random" / str(number)
        if not (results / "prepared").exists() or spec["data"]["rows"] != "pad":
            assert fits(trainer, spec | {"train": spec["train"] | {"steps": 1}}, folder), spec
            keep_prepared(folder, results)
        [plan] = plans(trainer, [request_of(spec, results)])
        peak = plan["memory_requested_bytes_max"]
        limited = spec | {"memory_limit_gib": limit_near(peak, number % 2 == 0, draw) / 2**30}
        [plan] = plans(trainer, [request_of(limited, results)])
        planned = plan["fit"] != "does_not_fit"
        said[planned] += 1
        limited_folder = results / "runs" / "random" / f"{number}-limited"
        if fits(trainer, limited, limited_folder) != planned:
            wrong.append((peak, planned, limited))
    print(f"of {count}: {said[True]} fit, {said[False]} do not; {len(wrong)} otherwise than planned")
    for case in wrong:
        print(case)
    assert not wrong
    assert said[True] > 0 and said[False] > 0, said
