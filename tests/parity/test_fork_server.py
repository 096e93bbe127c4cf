"""A forked rank behaves like a started one."""

import os
import signal
from pathlib import Path

import fork_server
import pytest
from test_against_transformers import Case
from trainer import free_port, log_file, rank_environment, read_events, train, write_spec
from waiting import LIMIT_S

# Figures that differ between runs.
VARYING = ("_ms", "process_id", "memory_host_bytes_max")
RESIDENT = ("memory_reserved_bytes_forward", "memory_reserved_bytes_max")  # CPU: the process's memory


def figures(folder: Path, rank: int, varying: tuple = VARYING) -> list[dict]:
    return [{name: value for name, value in event.items() if not name.endswith(varying)}
            for event in read_events(folder, rank)]


@pytest.fixture(autouse=True)
def server():
    if fork_server.library is None:
        pytest.skip("no --fork-server")


def test_it_reports_the_same(trainer, checkpoints, tokens, tmp_path, monkeypatch):
    spec = Case("fsdp", ranks=2).spec(checkpoints["plain"], tokens, checkpoint={"at_end": True})
    train(trainer, spec, tmp_path / "forked")
    monkeypatch.setattr(fork_server, "library", None)
    train(trainer, spec, tmp_path / "started")
    for rank in range(2):
        forked, started = (figures(tmp_path / name, rank, VARYING + RESIDENT) for name in ("forked", "started"))
        assert forked == started


def test_it_is_a_child_that_runs_the_program_where_the_test_is(trainer, checkpoints, tokens, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_spec(Case("ddp", ranks=2).spec(checkpoints["plain"], tokens), tmp_path / "run")
    environment = rank_environment(0, 2, free_port())
    with log_file(tmp_path / "run", 0).open("w") as log:
        waits = fork_server.start([trainer, "--spec", file, "--attempt", "1"], environment, log)
    process = Path(f"/proc/{waits.pid}")
    assert f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
    assert os.readlink(process / "exe") == str(trainer)
    assert os.readlink(process / "cwd") == str(tmp_path)
    assert os.readlink(process / "fd/1") == os.readlink(process / "fd/2") == log.name
    assert waits.poll() is None
    waits.kill()
    assert waits.wait() == -signal.SIGKILL


def test_its_exit_code_and_its_words_are_the_programs(trainer, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as output:
        refused = fork_server.start([trainer, "--spec", "nowhere"], dict(os.environ) | {"RANK": "1"}, output)
    assert refused.wait(timeout=LIMIT_S) == 2
    assert "'WORLD_SIZE': is not set although RANK is" in log.read_text()
