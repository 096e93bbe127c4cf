"""upload.py of every tracker."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("tracker", ["wandb", "mlflow", "trackio"])
def test_without_the_client_it_says_how_to_install_it(workplace, tracker):
    export = workplace.export(f"no-{tracker}", "--format", tracker)
    (export / tracker).mkdir()  # such as the folder of an experiment with this name
    without_packages = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-S", export / "upload.py"], text=True, capture_output=True,
                          env=without_packages)
    assert done.returncode == 1 and f"pip install {tracker}" in done.stderr and "Traceback" not in done.stderr
