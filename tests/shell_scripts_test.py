"""shellcheck finds nothing to say about our shell scripts, and about those that jobs of Slurm get."""
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent
IN_FOLDERS = ("cmake", "experiments/data/smollm2", "tests", "tests/fuzz")


def shell_scripts():
    yield SOURCE / "fsdp-run"
    for folder in IN_FOLDERS:
        for file in sorted((SOURCE / folder).iterdir()):
            if file.is_file() and file.read_bytes().startswith((b"#!/usr/bin/env bash", b"#!/bin/sh", b"#!/bin/bash")):
                yield file


def test_scripts_are_clean():
    scripts = list(shell_scripts())
    assert SOURCE / "cmake/setup" in scripts and SOURCE / "tests/run" in scripts
    # SC2016: fresh_machine passes a script in single quotes to another shell.
    check("SC2016", scripts)


def test_scripts_of_jobs_are_clean():
    scripts = sorted((SOURCE / "tests/golden/slurm").iterdir())
    assert scripts
    # SC1091: /etc/profile and files that a prologue reads are not on this host.
    check("SC1091", scripts)


def check(left_out, scripts):
    ended = subprocess.run(["shellcheck", "--external-sources", f"--exclude={left_out}", *scripts], cwd=SOURCE, text=True,
                           stdout=subprocess.PIPE)
    assert ended.returncode == 0, ended.stdout
