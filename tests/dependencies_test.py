"""The folders include each other one way only (see ARCHITECTURE.md)."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = {"base/text", "base/system", "base/files"}
SHARED = {*BASE, "contract/record", "contract/families", "contract/spec", "formats/hub", "formats/tokenizers",
          "formats/data", "formats/weights", "formats/inputs"}
ALLOWED = {
    "base/text": set(),
    "base/system": {"base/text"},
    "base/files": {"base/text", "base/system"},
    "contract/record": BASE,
    "contract/families": {"base/text"},
    "contract/spec": {"base/text", "contract/families"},
    "contract/plan": {"base/text", "base/files", "contract/record", "contract/families", "contract/spec"},
    "contract/devices": {"base/text", "contract/record", "contract/spec"},
    "formats/hub": {"base/text", "base/files", "contract/spec"},
    "formats/tokenizers": {"base/text", "base/files"},
    "formats/data": {*BASE, "contract/spec", "formats/tokenizers"},
    "formats/parquet": {"base/text", "formats/data"},
    "formats/weights": {"base/text", "base/files", "contract/families"},
    "formats/inputs": {*BASE, "contract/record", "contract/families", "contract/spec", "formats/hub",
                       "formats/tokenizers", "formats/data", "formats/weights"},
    "trainer/comm": SHARED,
    "trainer/memory": {"contract/record"},
    "trainer/kernels": {"base/system", "contract/record", "trainer/memory"},
    "trainer/backend": {*SHARED, "contract/devices", "trainer/memory", "trainer/kernels"},
    "trainer/model": {*SHARED, "trainer/memory", "trainer/kernels"},
    "trainer/engine": {*SHARED, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model"},
    "trainer/fingerprint": {*SHARED, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model",
                            "trainer/engine"},
    "trainer/strategy": {*SHARED, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model",
                         "trainer/engine", "trainer/comm"},
    "trainer/step": {*SHARED, "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/model",
                     "trainer/engine", "trainer/strategy", "trainer/comm", "trainer/fingerprint"},
    "trainer/self_test": {*SHARED, "contract/plan", "trainer/kernels", "trainer/backend", "trainer/model",
                          "trainer/comm", "trainer/strategy", "trainer/step", "trainer/plan", "trainer/train"},
    "trainer/data": {*SHARED, "trainer/model"},
    "trainer/checkpoint": {*SHARED, "trainer/backend", "trainer/model", "trainer/comm", "trainer/strategy",
                           "trainer/step"},
    "trainer/calibrate": {*SHARED, "contract/plan", "trainer/kernels", "trainer/backend", "trainer/comm",
                          "trainer/model", "trainer/strategy", "trainer/step", "trainer/data", "trainer/plan"},
    "trainer/train": {*SHARED, "contract/devices", "contract/plan", "trainer/calibrate", "trainer/memory", "trainer/kernels", "trainer/backend", "trainer/comm",
                      "trainer/model", "trainer/engine", "trainer/strategy", "trainer/step",
                      "trainer/data", "trainer/checkpoint", "trainer/fingerprint"},
    "trainer/plan": {*SHARED, "contract/devices", "contract/plan", "trainer/memory", "trainer/kernels", "trainer/backend",
                     "trainer/comm", "trainer/model", "trainer/engine", "trainer/strategy", "trainer/step",
                     "trainer/data", "trainer/checkpoint"},
    "runner/experiment": {*SHARED, "contract/plan"},
    "runner/store": {*SHARED, "contract/devices"},
    "runner/table": {*SHARED, "runner/store"},
    "runner/page": SHARED,
    "runner/series": {*SHARED, "runner/store", "runner/table"},
    "runner/answers": {*SHARED, "contract/plan", "runner/store", "runner/table", "runner/series"},
    "runner/diverge": {*SHARED, "runner/store", "runner/table"},
    "runner/report": {*SHARED, "runner/store", "runner/table", "runner/page", "runner/series", "runner/answers"},
    "runner/export": {*SHARED, "runner/store"},
    "runner/progress": {*SHARED, "runner/store", "runner/table"},
    "runner/import": {*SHARED, "runner/table"},
    "runner/fetch": {*SHARED, "runner/table", "runner/progress"},
    "runner/host": {*SHARED, "contract/devices", "runner/experiment", "runner/store", "runner/table", "runner/progress"},
    "runner/plan": {*SHARED, "contract/devices", "contract/plan", "runner/experiment", "runner/table", "runner/page",
                    "runner/host"},
    "runner/run": {*SHARED, "contract/plan", "runner/experiment", "runner/store", "runner/progress",
                   "runner/host"},
    "runner/cluster": {*SHARED, "runner/experiment", "runner/store", "runner/progress", "runner/host",
                       "runner/run"},
    "runner/commands": {*SHARED, "contract/plan", "runner/answers", "runner/experiment", "runner/store", "runner/table", "runner/page",
                        "runner/series", "runner/report", "runner/export", "runner/progress", "runner/fetch", "runner/import",
                        "runner/host", "runner/plan", "runner/run", "runner/cluster", "runner/diverge"},
}


def included_folders(folder):
    for file in sorted((ROOT / folder).glob("*.[ch]*")):
        for include in re.findall(r'#include "((?:base|contract|formats|trainer|runner|tests)/[^"]+)"', file.read_text()):
            yield file.name, str(pathlib.PurePosixPath(include).parent)


@pytest.mark.parametrize("folder", ALLOWED)
def test_folder_includes_only_what_it_may(folder):
    wrong = [(file, included) for file, included in included_folders(folder)
             if included not in ALLOWED[folder] | {folder}]
    assert wrong == []


def test_every_folder_is_listed():
    folders = {str(path.parent.relative_to(ROOT))
               for program in ("base", "contract", "formats", "trainer", "runner") for path in (ROOT / program).glob("*/*.[ch]*")}
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


def test_every_entry_of_ctest_has_one_level():
    shown = subprocess.run(["ctest", "--test-dir", os.environ["FSDP_BUILD"], "--show-only=json-v1"], check=True,
                           capture_output=True)
    labels = {test["name"]: [each["value"] for each in test["properties"] if each["name"] == "LABELS"]
              for test in json.loads(shown.stdout)["tests"]}
    levels = [[["quick"]], [["full"]], [["nightly"]]]
    assert labels and {name: label for name, label in labels.items() if label not in levels} == {}
