"""A forked rank behaves like a started one, also on fake GPUs."""

import fork_server
from failing_run import run
from test_fork_server import figures, server  # noqa: F401
from trainer import start, wait_until_well_ended


def test_it_reports_the_same(trainer, fake_cuda_with_order, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")
    spec = run(2) | {"train": {"steps": 3}, "checkpoint": {"at_end": True}}

    def report(name: str) -> list[list[dict]]:
        wait_until_well_ended(start(trainer, spec, tmp_path / name, preload=fake_cuda_with_order), tmp_path / name)
        return [figures(tmp_path / name, rank) for rank in range(2)]

    forked = report("forked")
    monkeypatch.setattr(fork_server, "library", None)
    assert report("started") == forked
