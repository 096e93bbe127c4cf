"""Checks slurm_templates/fsdp-run.def, as far as possible without Apptainer."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
DEFINITION = ROOT / "slurm_templates" / "fsdp-run.def"
SECTIONS = {"arguments", "setup", "files", "environment", "post", "runscript", "startscript", "test",
            "labels", "help"}
SHELL_SECTIONS = ["environment", "post", "runscript", "test"]


def read():
    """Returns the header's keywords, and the lines of each section."""
    header, sections, lines = {}, {}, None
    for line in DEFINITION.read_text().splitlines():
        if line.startswith("%"):
            name = line[1:].split()[0]
            assert name in SECTIONS and name not in sections, line
            lines = sections[name] = []
        elif lines is not None:
            assert not line.strip() or line.startswith("    "), line
            lines.append(line.strip())
        elif line.strip() and not line.startswith("#"):
            keyword, value = line.split(":", 1)
            header[keyword] = value.strip()
    return header, sections


def test_the_header_says_where_the_image_begins():
    header, _ = read()
    assert header == {"Bootstrap": "docker", "From": "debian:12"}


@pytest.mark.parametrize("section", SHELL_SECTIONS)
def test_shell_sections_are_clean(section, tmp_path):
    _, sections = read()
    script = tmp_path / section
    script.write_text("#!/bin/sh\n" + "\n".join(sections[section]) + "\n")
    for check in (["sh", "-n"], ["bash", "-n"], ["shellcheck"]):
        result = subprocess.run([*check, script], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_files_are_there_and_hold_all_that_the_build_reads():
    _, sections = read()
    sources = []
    for line in filter(None, sections["files"]):
        source, target = line.split()
        assert (ROOT / source).exists() and target == "/opt/fsdp-run/"
        sources.append(source)
    text = (ROOT / "CMakeLists.txt").read_text()
    assert set(re.findall(r"add_subdirectory\((\w+)\)", text)) <= set(sources)
    in_source_folder = re.compile(r"\$\{CMAKE_SOURCE_DIR\}/(\w+)")
    for pattern in ("cmake/*.cmake", "base/**/CMakeLists.txt", "contract/**/CMakeLists.txt", "formats/**/CMakeLists.txt", "runner/**/CMakeLists.txt", "trainer/**/CMakeLists.txt"):
        for file in ROOT.glob(pattern):
            assert set(in_source_folder.findall(file.read_text())) <= set(sources), file


def test_the_build_is_that_of_the_wrapper():
    _, sections = read()
    (call,) = [line for line in sections["post"] if line.startswith("./cmake/setup")]
    preset, wheels = re.match(r'./cmake/setup (\w+) "([^"]+)"', call).groups()
    wrapper = (ROOT / "fsdp-run").read_text()
    assert f'cuda) preset={preset} wheels="{wheels}" ;;' in wrapper
    program = f"/opt/fsdp-run/build/{preset}/fsdp-train"
    assert program in " ".join(sections["runscript"] + sections["test"])
    assert program in DEFINITION.read_text().split("%files")[0]
