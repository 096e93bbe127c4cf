"""The Python that a fetch needs, and the library that a fetch installs if Python has none."""
import sys
import zipfile
from pathlib import Path

import huggingface_hub
import pytest

VERSION = huggingface_hub.__version__  # fetches install the version that the tests have

# A fake package that imports the tests' own library instead.
LEADS_ON = f"""import sys
sys.path.insert(0, {str(Path(huggingface_hub.__path__[0]).parent)!r})
del sys.modules["huggingface_hub"]
import huggingface_hub
"""


@pytest.mark.parametrize("script, problem", [
    ("exit 1", "ended without an answer"), ("echo Loading module; cat", "parse error"), ("echo []; cat", "answers otherwise"),
    ("echo invalid syntax >&2", "invalid syntax"), (None, "No such file or directory")])
def test_another_python_is_refused_with_what_to_do(workplace, script, problem):
    workplace.python.unlink()
    if script:
        workplace.python.write_text(f"#!/bin/sh\n{script}\n")
        workplace.python.chmod(0o755)
    ended = workplace.fetch(status=1)
    assert problem in ended.stderr
    assert "a fetch needs Python 3.10 or later" in ended.stderr
    assert "or let FSDP_PYTHON name such a Python" in ended.stderr


def test_the_library_is_installed_once(workplace):
    wheels, caches = workplace.folder / "wheels", workplace.folder / "cache/fsdp-run"
    wheels.mkdir()
    variables = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    workplace.python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no library, but pip
    ended = workplace.fetch(**variables, status=1)
    assert f"cannot be installed into {caches}/huggingface_hub-{VERSION}-" in ended.stderr
    assert "pip says: ERROR: " in ended.stderr and "let FSDP_PYTHON name DIR/bin/python" in ended.stderr, ended.stderr
    assert list(caches.iterdir()) == [] and workplace.hub.requests == []

    variables["FSDP_PYTHON"] = sys._base_executable  # no library, perhaps no pip
    wheel = wheels / f"huggingface_hub-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        information = f"huggingface_hub-{VERSION}.dist-info"
        archive.writestr("huggingface_hub/__init__.py", LEADS_ON)
        archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: huggingface_hub\nVersion: {VERSION}\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    ended = workplace.fetch(**variables)
    assert f"installing huggingface_hub=={VERSION} into" in ended.stderr

    wheel.unlink()
    ended = workplace.fetch(**variables)
    assert "installing" not in ended.stderr
