"""The programs under test, and the modules of this folder and of tests/slurm."""
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "slurm"))  # host_processes


@pytest.fixture(scope="session")
def place(runner, trainer, tmp_path_factory):
    """A workplace with the results of a sweep of two runs, also merged into another folder."""
    from workplace import Workplace

    place = Workplace(tmp_path_factory.mktemp("day") / "day", 2, runner, trainer)
    assert place.call(*place.run_arguments()).returncode == 0
    merged = place.call("merge", f"mine={place.results}", "--results", place.merged)
    assert merged.returncode == 0
    yield place
    place.end(kept=False)
