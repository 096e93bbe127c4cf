"""On GPUs that keep accounts the allocator of libtorch takes what was planned, to the byte: allocated and reserved. And
no stream is too early."""

import random
import shutil

from planning import plans, request_of
from random_runs import on_gpu, random_spec, write_articles
from trainer import of_kind, read_events, start, wait_until_well_ended

CAPABILITY = 80


def largest(steps: list[dict], figure: str) -> int:
    return max(step[f"memory_{figure}_bytes_max"] for step in steps)


def test_the_allocator_takes_what_was_planned(trainer, fake_cuda_with_order, request, seed, tmp_path,
                                              monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", f"{CAPABILITY / 10}")
    draw = random.Random(seed)
    print(f"seed {seed}")
    articles = write_articles(tmp_path / "articles.csv", draw)
    results = tmp_path / "results"
    unequal = []
    for number in range(request.config.getoption("--runs")):
        spec = on_gpu(random_spec(draw, articles)) | {"kernels": "aten"}
        folder = results / "runs" / "random" / str(number)
        ranks = spec["strategy"]["ranks"]
        wait_until_well_ended(start(trainer, spec, folder, preload=fake_cuda_with_order), folder)
        if (folder / "prepared").exists():
            shutil.copytree(folder / "prepared", results / "prepared", dirs_exist_ok=True)
        [plan] = plans(trainer, [request_of(spec, results, compute_capability=CAPABILITY)])
        steps = [of_kind("step", read_events(folder, rank)) for rank in range(ranks)]
        for figure in ("allocated", "reserved"):
            measured = max(largest(of_rank, figure) for of_rank in steps)
            planned = plan[f"memory_{figure}_bytes_max"]
            # Steps do not report the peaks of evaluations, or of a save after the last step.
            is_of_steps = not spec.keys() & {"evaluation", "checkpoint"}
            if measured > planned or (is_of_steps and measured != planned):
                unequal.append((number, figure, planned - measured, measured, spec))
    print("\n".join(map(str, unequal)))
    assert not unequal
