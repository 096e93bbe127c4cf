"""What a plan says of random runs is what the runs report, to the byte: how much memory, when and
for what."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from random_runs import random_spec, write_articles

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity"))
from trainer import events_file, start, wait_until_well_ended  # noqa: E402


def plans(trainer: Path, requests: list[dict]) -> list[dict]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    answered = subprocess.run([trainer, "--plan"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in answered.stdout.splitlines()]


def request_of(spec: dict, results: Path, memory_bytes: int = 0) -> dict:
    device = {"kind": "cpu", "memory_bytes": memory_bytes, "context_bytes": 0, "capability_major": 0}
    return {"specification": yaml.safe_dump(spec), "device": device, "results": str(results)}


def reported_peak(folder: Path, ranks: int) -> dict:
    """Of the rank with most."""
    peaks = []
    for rank in range(ranks):
        events = map(json.loads, events_file(folder, rank).read_text().splitlines())
        peaks.append([event for event in events if event["kind"] == "memory_peak"][-1])
    return max(peaks, key=lambda peak: peak["memory_allocated_bytes_max"])


def moment(peak: dict) -> tuple:
    return peak["phase"], peak["unit"]


def composition(peak: dict) -> dict:
    return {name: value for name, value in peak.items() if name.endswith("_bytes")}


def test_plan_is_what_the_run_reports(trainer, seed, request, tmp_path):
    count = request.config.getoption("--runs")
    draw = random.Random(seed)
    print(f"seed {seed}")
    articles = write_articles(tmp_path / "articles.csv", draw)
    results = tmp_path / "results"
    unequal, far, moments, compositions = [], [], [], []
    for number in range(count):
        spec = random_spec(draw, articles)
        folder = results / "runs" / "random" / str(number)
        processes = start(trainer, spec, folder)
        wait_until_well_ended(processes, folder)
        if (folder / "prepared").exists():  # else what an earlier run had prepared served
            shutil.copytree(folder / "prepared", results / "prepared", dirs_exist_ok=True)
        [answer] = plans(trainer, [request_of(spec, results)])
        assert answer["plan"], (answer["error"], spec)
        peak = reported_peak(folder, spec["strategy"]["ranks"])
        planned = answer["plan"]["peak"]
        reported_bytes = peak["memory_allocated_bytes_max"]
        difference = planned["memory_allocated_bytes_max"] - reported_bytes
        if difference:
            unequal.append((number, difference, reported_bytes, moment(planned), moment(peak), spec))
        if abs(difference) > 0.01 * reported_bytes:
            far.append(number)
        if moment(planned) != moment(peak):
            moments.append((number, moment(planned), moment(peak)))
        if composition(planned) != composition(peak):
            compositions.append((number, composition(planned), composition(peak)))
        shutil.rmtree(folder)
    print(f"of {count}: bytes differ in {len(unequal)}, by more than 1 % in {len(far)}, moments in "
          f"{len(moments)}, compositions in {len(compositions)}")
    for differing in (unequal, moments, compositions):
        for case in differing:
            print(case)
    assert not far
    assert len(unequal) <= 0.03 * count
    assert len(moments) <= 0.05 * count and len(compositions) <= 0.05 * count
