"""The folders include each other one way only (see ARCHITECTURE.md)."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTRACT = {"contract/text", "contract/record", "contract/files", "contract/families", "contract/spec",
            "contract/tokenizers", "contract/data", "contract/inputs"}
ALLOWED = {
    "contract/text": set(),
    "contract/record": {"contract/text"},
    "contract/families": {"contract/text"},
    "contract/spec": {"contract/text", "contract/families"},
    "contract/devices": {"contract/text", "contract/spec"},
    "contract/files": {"contract/text", "contract/record"},
    "contract/tokenizers": {"contract/text", "contract/files"},
    "contract/data": {"contract/text", "contract/record", "contract/files", "contract/spec",
                      "contract/tokenizers"},
    "contract/parquet": {"contract/text", "contract/data"},
    "contract/inputs": {"contract/text", "contract/record", "contract/files", "contract/families",
                        "contract/spec", "contract/tokenizers", "contract/data"},
    "trainer/comm": CONTRACT,
    "contract/plan": {"contract/text", "contract/record", "contract/families", "contract/spec"},
    "trainer/memory": {"contract/record"},
    "trainer/kernels": {"trainer/memory"},
    "trainer/backend": {*CONTRACT, "trainer/memory", "trainer/kernels"},
    "trainer/model": {*CONTRACT, "trainer/memory", "trainer/kernels"},
    "trainer/engine": {*CONTRACT, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model"},
    "trainer/strategy": {*CONTRACT, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model",
                         "trainer/engine", "trainer/comm"},
    "trainer/step": {*CONTRACT, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model",
                     "trainer/engine", "trainer/strategy", "trainer/comm"},
    "trainer/self_test": {*CONTRACT, "contract/plan", "trainer/kernels", "trainer/backend", "trainer/model",
                          "trainer/comm", "trainer/strategy", "trainer/step", "trainer/plan", "trainer/train"},
    "trainer/data": {*CONTRACT, "trainer/model"},
    "trainer/checkpoint": {*CONTRACT, "trainer/backend", "trainer/model", "trainer/comm", "trainer/step"},
    "trainer/calibrate": {*CONTRACT, "contract/plan", "trainer/kernels", "trainer/backend", "trainer/comm",
                          "trainer/model", "trainer/strategy", "trainer/step", "trainer/data", "trainer/plan"},
    "trainer/train": {*CONTRACT, "contract/plan", "trainer/calibrate", "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/comm",
                      "trainer/model", "trainer/engine", "trainer/strategy", "trainer/step",
                      "trainer/data", "trainer/checkpoint"},
    "trainer/plan": {*CONTRACT, "contract/devices", "contract/plan", "trainer/memory", "trainer/kernels", "trainer/backend",
                     "trainer/comm", "trainer/model", "trainer/engine", "trainer/strategy", "trainer/step",
                     "trainer/data", "trainer/checkpoint"},
    "runner/experiment": {*CONTRACT, "contract/plan"},
    "runner/store": {*CONTRACT, "contract/devices"},
    "runner/table": {*CONTRACT, "runner/store"},
    "runner/page": CONTRACT,
    "runner/series": {*CONTRACT, "runner/store", "runner/table"},
    "runner/answers": {*CONTRACT, "runner/store", "runner/table", "runner/series"},
    "runner/report": {*CONTRACT, "runner/store", "runner/table", "runner/page", "runner/series", "runner/answers"},
    "runner/export": {*CONTRACT, "runner/store"},
    "runner/progress": {*CONTRACT, "runner/store", "runner/table"},
    "runner/fetch": {*CONTRACT, "runner/table", "runner/progress"},
    "runner/host": {*CONTRACT, "runner/experiment", "runner/store", "runner/table", "runner/progress"},
    "runner/plan": {*CONTRACT, "contract/devices", "contract/plan", "runner/experiment", "runner/table", "runner/page",
                    "runner/host"},
    "runner/run": {*CONTRACT, "contract/plan", "runner/experiment", "runner/store", "runner/progress",
                   "runner/host"},
    "runner/cluster": {*CONTRACT, "runner/experiment", "runner/store", "runner/progress", "runner/host",
                       "runner/run"},
    "runner/commands": {*CONTRACT, "contract/plan", "runner/experiment", "runner/store", "runner/table", "runner/page",
                        "runner/series", "runner/report", "runner/export", "runner/progress", "runner/fetch",
                        "runner/host", "runner/plan", "runner/run", "runner/cluster"},
}


def included_folders(folder):
    for file in sorted((ROOT / folder).glob("*.[ch]*")):
        for include in re.findall(r'#include "((?:contract|trainer|runner|tests)/[^"]+)"', file.read_text()):
            yield file.name, str(pathlib.PurePosixPath(include).parent)


@pytest.mark.parametrize("folder", ALLOWED)
def test_folder_includes_only_what_it_may(folder):
    wrong = [(file, included) for file, included in included_folders(folder)
             if included not in ALLOWED[folder] | {folder}]
    assert wrong == []


def test_every_folder_is_listed():
    folders = {str(path.parent.relative_to(ROOT))
               for program in ("contract", "trainer", "runner") for path in (ROOT / program).glob("*/*.[ch]*")}
    assert folders == set(ALLOWED)


def test_the_runner_knows_neither_libtorch_nor_the_trainer():
    for folder in (ROOT / "runner").glob("**/*.[ch]*"):
        text = folder.read_text()
        assert "torch/" not in text and "ATen/" not in text and "c10/" not in text, folder
        assert not re.search(r'#include "trainer/', text), folder


def test_nothing_prints_around_the_streams_that_are_made_safe():
    prints = re.compile(r"(?<![\w:])(?:std::)?(?:v?f?printf|f?puts|f?putc|putchar|perror|fwrite|clog)\b")
    for file in (ROOT / "runner").glob("**/*.cpp"):
        code = re.sub(r"//.*", "", file.read_text())
        assert not prints.search(code), file
