"""A sweep keeps the programs that it was started with while set-up builds others. This runs in a
copied folder. Its cmake takes the programs of this build, and fails as long as there is a file
`fail`."""

import os
import pathlib
import shutil
import subprocess
import time

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = SOURCE / "build/release"
CMAKE = f"""#!/usr/bin/env bash
[[ $1 != --version ]] || {{ echo "cmake version 3.25.1"; exit; }}
[[ $1 == --build ]] || exit 0
mkdir -p build/release
[[ -e build/release/lib ]] || cp -a {BUILD}/lib build/release
rm -f build/release/fsdp-run build/release/fsdp-train
cp {BUILD}/fsdp-run build/release
cp {BUILD}/stub_trainer build/release/fsdp-train
chmod -x build/release/fsdp-run build/release/fsdp-train
[[ ! -e fail ]] || exit 1
date +%N >> build/release/fsdp-run # another version
chmod +x build/release/fsdp-run build/release/fsdp-train
"""
EXPERIMENT = """experiment: trial
base:
  device: cpu
  train: {steps: 5}
points:
  - {name: first, strategy: {kind: ddp, ranks: 2}}
  - {name: second}
"""


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(SOURCE / "cmake", tmp_path / "cmake")
    shutil.copy(SOURCE / "fsdp-run", tmp_path)
    (tmp_path / ".venv").symlink_to(SOURCE / ".venv")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/cmake").write_text(CMAKE)
    (tmp_path / "programs/cmake").chmod(0o755)
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    for part in ("contract", "runner", "trainer", "tests"):
        (tmp_path / part).mkdir()
    for part in ("CMakeLists.txt", "CMakePresets.json"):
        (tmp_path / part).touch()
    return tmp_path


def start(folder, *words, **variables):
    own = SOURCE / ".deps/usr"
    environment = {"PATH": f"{folder}/programs:/usr/bin:/bin:{own}/bin", "FSDP_VARIANT": "cpu",
                   "CMAKE_PREFIX_PATH": str(own), **variables}
    return subprocess.Popen([folder / "fsdp-run", *words], cwd=folder, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_build_that_fails_midway_does_not_break_a_sweep(folder):
    sweep = start(folder, "experiment.yaml", STUB_RULES="point=first,step=3,await=go")
    assert any("first: started" in line for line in sweep.stdout)
    (folder / "fail").touch()
    other = start(folder, "run", "experiment.yaml", "--dry-run", "--set", "data.train=a.parquet")
    said = other.communicate()[0]
    assert other.returncode != 0 and "building build/release: fsdp-train fsdp-run-program fsdp-parquet" in said
    (folder / "go").touch()
    said = sweep.communicate()[0]
    assert sweep.returncode == 0, said
    assert "second: finished" in said


def version_built_by(folder, *words):
    said = start(folder, *words).communicate()[0]
    assert "building build/release" in said
    return (folder / "build/release/current").resolve()


def test_versions_that_nobody_starts_are_removed_when_another_is_built(folder):
    first, second = (version_built_by(folder, "plan", "experiment.yaml") for _ in range(2))
    assert first != second and (first / "fsdp-train").exists()
    long_ago = time.time() - 90 * 86400
    os.utime(first, (long_ago, long_ago))
    third = version_built_by(folder, "plan", "experiment.yaml")
    assert not first.exists() and second.exists() and third.exists()
