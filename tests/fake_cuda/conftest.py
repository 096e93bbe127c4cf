import random
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "parity"), str(TESTS / "plan")]
import fork_server  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--trainer", type=Path, help="fsdp-train, built for CUDA")
    parser.addoption("--fake-cuda", type=Path, help="libcuda.so.1 of tests/fakes/cuda")
    parser.addoption("--runner", type=Path, help="fsdp-run")
    fork_server.add_option(parser)
    parser.addoption("--fake-nvml", type=Path, help="libnvidia-ml.so.1 of tests/fakes")
    parser.addoption("--kills", type=int, default=2, help="how often a rank of a run under fsdp-run is killed")
    parser.addoption("--runs", type=int, default=12, help="how many random runs")
    parser.addoption("--seed", type=int, default=None, help="of the random runs and kills; else another each time")


def pytest_configure(config):
    fork_server.configure(config)


@pytest.fixture(scope="session")
def trainer(request) -> Path:
    return request.config.getoption("--trainer").resolve()


@pytest.fixture(scope="session")
def fake_cuda(request) -> Path:
    return request.config.getoption("--fake-cuda").resolve()


@pytest.fixture(scope="session")
def runner(request) -> Path:
    return request.config.getoption("--runner").resolve()


@pytest.fixture(scope="session")
def fake_nvml(request) -> Path:
    return request.config.getoption("--fake-nvml").resolve()


@pytest.fixture
def seed(request) -> int:
    given = request.config.getoption("--seed")
    return given if given is not None else random.randrange(10**6)


@pytest.fixture
def fake_cuda_with_order(fake_cuda, monkeypatch) -> str:
    """Ends a rank if an operator runs before the work that it should wait for."""
    monkeypatch.setenv("FAKE_CUDA_WATCHES_ORDER", "1")
    return f"{fake_cuda} {fake_cuda.with_name('libfake_cuda_order.so')}"
