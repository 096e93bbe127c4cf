"""A search finds the same largest value as a test of every value. `--max` searches by plans, and a
doubled key with `refine` by runs. Tests --runs / 4 plans and --runs / 8 sweeps."""

import json
import random
import sqlite3
from pathlib import Path

import pytest
import yaml
from planning import plans, request_of
from random_runs import on_gpu, random_spec, with_value, write_articles

MEMORY_GIB = 2**30


@pytest.fixture
def fsdp_run(call, trainer):
    def run(*words: str, program: Path = trainer) -> str:
        options = [] if words[0] in ("prepare", "report") else ["--trainer", program]
        return call(*words, *options).stdout

    return run


def searched_key(spec: dict, draw: random.Random) -> str:
    keys = ["batch.size_per_rank"] * 2
    keys += ["data.input_length", "data.target_length"] if spec["data"]["kind"] == "wikihow" else ["data.sequence_length"]
    if "evaluation" in spec:
        keys.append("evaluation.size_per_rank")
    return draw.choice(keys)


def write_experiment(folder: Path, name: str, base: dict, sweep: dict) -> str:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"experiment": name, "base": base, "sweep": sweep}))
    return f"{name}.yaml"


def limited(spec: dict, peak_bytes: int, draw: random.Random) -> dict:
    """Returns a copy with a memory limit just below or above the peak."""
    return spec | {"memory_limit_gib": peak_bytes * draw.uniform(0.97, 1.05) / MEMORY_GIB}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_max_finds_what_a_plan_of_every_value_finds(trainer, fsdp_run, seed, count, device, tmp_path):
    draw = random.Random(seed)
    articles = write_articles(tmp_path / "articles.csv", draw, count=6000)
    wrong, compared, capability = [], 0, 80 if device == "cuda" else 0
    words = ["--gpu", "a100-80"] if device == "cuda" else []
    while compared < max(1, count // 4):
        spec = random_spec(draw, articles)
        spec = on_gpu(spec) if device == "cuda" else spec
        spec["batch"]["gradient_accumulation_steps"] = min(2, spec["batch"]["gradient_accumulation_steps"])
        key = searched_key(spec, draw)
        some_value = draw.randint(1, 20)
        file = write_experiment(tmp_path, "all", spec, {"product": {key: list(range(1, 3 * some_value + 20))}})
        fsdp_run("prepare", file)
        [plan] = plans(trainer, [request_of(with_value(spec, key, some_value), tmp_path / "results",
                                            compute_capability=capability)])
        spec = limited(spec, plan["memory_reserved_bytes_max"], draw)
        values = range(1, 3 * some_value + 20)
        file = write_experiment(tmp_path, "all", spec, {"product": {key: list(values)}})
        rows = json.loads(fsdp_run("plan", file, "--format", "json", *words))
        fitting = [value for value, row in zip(values, rows, strict=True) if row["fits"]]
        if not fitting or fitting[-1] == values[-1]:
            continue  # no value fits, or the largest is beyond `values`
        file = write_experiment(tmp_path, "one", spec, {"product": {"train.seed": [spec["train"]["seed"]]}})
        [largest] = json.loads(fsdp_run("plan", file, "--format", "json", "--max", key, *words))
        found = int(largest["point"].split("=")[-1]) if largest["fits"] else None
        if found is not None and found > values[-1]:
            continue  # with other kernels, some larger values take less
        compared += 1
        if found != fitting[-1]:
            wrong.append((key, fitting[-5:], found, spec))
    assert not wrong, wrong


def statuses(results: Path) -> dict[int, str]:
    """Returns value of the doubled key -> status."""
    with sqlite3.connect(results / "results.sqlite") as database:
        return dict(database.execute("SELECT family_value, status FROM comparison WHERE family_value IS NOT NULL"))


def test_a_refined_sweep_finds_what_a_run_of_every_value_finds(
        trainer, trainer_that_cannot_plan, fsdp_run, seed, count, tmp_path):
    draw = random.Random(seed)
    articles = write_articles(tmp_path / "articles.csv", draw)
    wrong, compared, last = [], 0, 10
    while compared < max(1, count // 8):
        spec = random_spec(draw, articles)
        if spec["strategy"]["ranks"] > 2:
            continue
        spec["batch"]["gradient_accumulation_steps"] = min(2, spec["batch"]["gradient_accumulation_steps"])
        key = draw.choice(["batch.size_per_rank", *(["evaluation.size_per_rank"] if "evaluation" in spec else [])])
        [plan] = plans(trainer, [request_of(with_value(spec, key, draw.randint(1, 7)), tmp_path)])
        spec = limited(spec, plan["memory_requested_bytes_max"], draw)
        found = {}
        sweep = {"double": {key: {"from": 1, "to": last, "refine": True}}}
        for name, program in [("planned", trainer), ("searched", trainer_that_cannot_plan)]:
            results = tmp_path / f"{name}-{compared}"
            fsdp_run(write_experiment(tmp_path, name, spec, sweep), "--results", str(results), program=program)
            found[name] = max((value for value, status in statuses(results).items() if status == "finished"), default=0)
        all_file = write_experiment(tmp_path, "every", spec, {"product": {key: list(range(1, last + 1))}})
        fsdp_run(all_file, "--results", str(tmp_path / f"every-{compared}"))
        rows = json.loads(fsdp_run("report", "every", "--format", "json", "--results",
                                   str(tmp_path / f"every-{compared}")))["rows"]
        found["every"] = max((int(row["point"].split("=")[-1]) for row in rows if row["status"] == "finished"), default=0)
        assert all(row["status"] in ("finished", "out_of_memory") for row in rows), (rows, spec)
        compared += 1
        if len(set(found.values())) > 1:
            wrong.append((key, found, spec))
    assert not wrong, wrong
