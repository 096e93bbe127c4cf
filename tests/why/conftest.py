from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--slow-parts", type=Path, help="a library that makes parts of a step slower")


@pytest.fixture
def slow_parts(request) -> Path:
    return request.config.getoption("--slow-parts")
