from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def hidden_from_other_runners(tmp_path, monkeypatch):
    """Hides other measurements on this host, because a calibration would not begin beside them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(scope="session")
def count(request) -> int:
    """Returns how many random runs a test makes."""
    return request.config.getoption("--runs") or 8


@pytest.fixture
def trainer_that_cannot_plan(trainer, tmp_path) -> Path:
    program = tmp_path / "trainer"
    program.write_text(f'#!/bin/sh\ncase "$1" in --plan) exit 2 ;; esac\nexec {trainer} "$@"\n')
    program.chmod(0o755)
    return program
