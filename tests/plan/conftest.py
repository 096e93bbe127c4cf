import os
import random
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "parity")]
import fork_server  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--trainer", type=Path, help="fsdp-train, built")
    parser.addoption("--runner", type=Path, help="fsdp-run, built")
    fork_server.add_option(parser)
    parser.addoption("--runs", type=int, default=8, help="how many random runs")
    parser.addoption("--seed", type=int, default=None, help="of the random runs; else another each time")


def pytest_configure(config):
    fork_server.configure(config)


@pytest.fixture(scope="session")
def trainer(request) -> Path:
    program = request.config.getoption("--trainer")
    assert program, "give the program: --trainer build/release/fsdp-train"
    return program.resolve()


@pytest.fixture(scope="session")
def seed(request) -> int:
    given = request.config.getoption("--seed")
    return given if given is not None else random.randrange(10**6)


@pytest.fixture(autouse=True)
def hidden_from_other_runners(tmp_path, monkeypatch):
    """Hides other measurements on this host, because a calibration would not begin beside them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
