"""The options and fixtures of all folders: the programs under test, and the seed."""

import os
import random
import subprocess
from pathlib import Path

import fork_server
import pytest

# name of an option -> what it names
PROGRAMS = {
    "runner": "fsdp-run",
    "trainer": "fsdp-train",
    "runner_test": "the tests of runner/",
    "stub_trainer": "tests/fakes/stub_trainer",
    "fork_server": "tests/fakes/fork_server: ranks are forked with it, and started without it",
    "kill_at_call": "tests/fakes/kill_at_call",
    "hold_fsync": "tests/fakes/hold_fsync",
    "hold_at_step": "tests/fakes/hold_at_step",
    "slow_parts": "tests/fakes/slow_parts",
    "logits_writer": "tests/parity/logits.cpp",
    "quantizer": "tests/parity/nf4.cpp",
    "encode_text": "tests/tokenizers/encode.cpp",
    "fake_cuda": "libcuda.so.1 of tests/fakes/cuda",
    "fake_nvml": "libnvidia-ml.so.1 of tests/fakes",
}


def seed_of(text: str) -> int:
    return random.randrange(10**6) if text == "random" else int(text)


def pytest_addoption(parser):
    for name, text in PROGRAMS.items():
        parser.addoption(f"--{name.replace('_', '-')}", type=Path, help=f"{text}, built")
    # With 1203, the 8 random runs of tests/plan have all families, methods, strategies and offloads.
    parser.addoption("--seed", type=seed_of, default=os.environ.get("FSDP_TEST_SEED", "1203"),
                     help="of all that is random: a number, or `random`")
    parser.addoption("--runs", type=int, help="how many random runs; by default few")


def pytest_configure(config):
    fork_server.library = config.getoption("--fork-server")


def program(name: str, fixture: str = ""):
    """Makes the fixture with the path of a program or library."""

    def path(request) -> Path:
        given = request.config.getoption(f"--{name.replace('_', '-')}")
        assert given and given.exists(), f"give a built program: --{name.replace('_', '-')} (not {given})"
        return given.resolve()

    return pytest.fixture(path, scope="session", name=fixture or name)


runner, trainer, stub_trainer, runner_test = map(program, ["runner", "trainer", "stub_trainer", "runner_test"])
logits_writer, quantizer, encode_text = map(program, ["logits_writer", "quantizer", "encode_text"])
kill_at_call_library = program("kill_at_call", "kill_at_call_library")
hold_fsync_library = program("hold_fsync", "hold_fsync_library")
hold_at_step, slow_parts = map(program, ["hold_at_step", "slow_parts"])
fake_cuda, fake_nvml = map(program, ["fake_cuda", "fake_nvml"])


@pytest.fixture(scope="session")
def seed(request) -> int:
    """Tests that use it print it if they fail."""
    print(f"--seed {request.config.getoption('--seed')}")
    return request.config.getoption("--seed")


@pytest.fixture
def call(runner, tmp_path):
    """call(words..., variables...) runs fsdp-run. Returns the ended process, whose exit code must be
    `fails_with`; any, if that is None. The words in `prefix` come before the program."""

    def run(*words, fails_with: int | None = 0, prefix: tuple = (), cwd: Path = tmp_path, **variables):
        done = subprocess.run([*prefix, runner, *words], cwd=cwd, env=os.environ | variables, capture_output=True,
                              text=True)
        assert fails_with in (None, done.returncode), done.stdout + done.stderr
        return done

    return run
