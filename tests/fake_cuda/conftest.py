import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "plan"))


def pytest_addoption(parser):
    parser.addoption("--kills", type=int, default=2, help="how often a rank of a run under fsdp-run is killed")


@pytest.fixture
def fake_cuda_with_order(fake_cuda, monkeypatch) -> str:
    """Ends a rank if an operator runs before the work that it should wait for."""
    monkeypatch.setenv("FAKE_CUDA_WATCHES_ORDER", "1")
    return f"{fake_cuda} {fake_cuda.with_name('libfake_cuda_order.so')}"
