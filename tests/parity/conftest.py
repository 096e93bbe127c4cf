import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import fork_server
import pytest
from trainer import start, wait_for

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for few_games

# Only fixtures import torch and transformers, which takes seconds. xdist's first process also reads
# this file, but runs no test.


def pytest_addoption(parser):
    parser.addoption(
        "--trainer",
        default=os.environ.get("FSDP_TRAIN"),
        help="the fsdp-train program to test; default: the environment's FSDP_TRAIN",
    )
    fork_server.add_option(parser)
    parser.addoption("--hold-fsync", type=Path, help="tests/fakes/hold_fsync, built")
    parser.addoption("--kill-at-call", type=Path, help="tests/fakes/kill_at_call, built")
    parser.addoption("--logits-writer", type=Path, help="the program logits.cpp, built")
    parser.addoption("--quantizer", type=Path, help="the program nf4.cpp, built")


def pytest_configure(config):
    fork_server.configure(config)


@pytest.fixture(scope="session")
def trainer(request) -> Path:
    program = request.config.getoption("--trainer")
    if program is None:
        pytest.exit("give the program: --trainer build/release/fsdp-train, or FSDP_TRAIN", 2)
    if not os.access(program, os.X_OK):
        pytest.exit(f"{program} is not a program; build it first", 2)
    return Path(program).resolve()


@pytest.fixture
def logits_writer(request) -> Path:
    program = request.config.getoption("--logits-writer")
    assert program, "give the program: --logits-writer build/release/train_and_write_logits"
    return program.resolve()


@pytest.fixture
def quantizer(request) -> Path:
    program = request.config.getoption("--quantizer")
    assert program, "give the program: --quantizer build/release/quantize_to_nf4"
    return program.resolve()


@pytest.fixture
def kill_at_call(request, monkeypatch, trainer):
    """kill_at_call(call, spec, folder) trains `spec` until a rank is killed. `call` is the number,
    from 1, of the rank's system call that changes a file system."""
    library = request.config.getoption("--kill-at-call")
    assert library, "give the library: --kill-at-call build/release/tests/fakes/libkill_at_call.so"

    def train_until_killed(call: int, spec: dict, folder: Path) -> None:
        monkeypatch.setenv("KILL_AT_CALL", str(call))
        processes = start(trainer, spec, folder, preload=library.resolve())
        monkeypatch.delenv("KILL_AT_CALL")
        wait_for(processes)
        assert -signal.SIGKILL in [process.returncode for process in processes]

    return train_until_killed


class HeldDisk:
    """Starts ranks. Their calls of fsync block until release()."""

    def __init__(self, library: Path, fifo: Path, monkeypatch):
        self.library, self.fifo, self.monkeypatch = library.resolve(), fifo, monkeypatch
        self.processes: list[subprocess.Popen] = []
        os.mkfifo(fifo)

    def start(self, trainer: Path, spec: dict, folder: Path) -> list[subprocess.Popen]:
        with self.monkeypatch.context() as patch:
            patch.setenv("HOLD_FSYNC", str(self.fifo))
            self.processes = start(trainer, spec, folder, preload=self.library)
        return self.processes

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    @contextmanager
    def released(self) -> Iterator[None]:
        descriptor = os.open(self.fifo, os.O_RDWR)  # also a reader, so open() does not block
        yield
        os.close(descriptor)


@pytest.fixture
def held_disk(request, monkeypatch, tmp_path) -> Iterator[HeldDisk]:
    library = request.config.getoption("--hold-fsync")
    assert library, "give the library: --hold-fsync build/release/tests/fakes/libhold_fsync.so"
    disk = HeldDisk(library, tmp_path / "fifo", monkeypatch)
    yield disk
    disk.kill()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    """variant -> its folder."""
    from checkpoints import VARIANTS, write_checkpoint

    folder = tmp_path_factory.mktemp("checkpoints")
    for name in VARIANTS:
        write_checkpoint(name, folder / name)
    return {name: folder / name for name in VARIANTS}


@pytest.fixture(scope="session")
def large_gradients(checkpoints, tmp_path_factory) -> Path:
    """A model whose gradients overflow float16 at the first loss scale, but not after some
    steps."""
    from checkpoints import copy_with_changed_tensor

    folder = tmp_path_factory.mktemp("large_gradients") / "model"
    return copy_with_changed_tensor(
        checkpoints["plain"], folder, "model.norm.weight", lambda norm: norm.mul_(30)
    )


@pytest.fixture(scope="session")
def tokens(tmp_path_factory) -> Path:
    from checkpoints import write_tokens

    file = tmp_path_factory.mktemp("tokens") / "train.npy"
    write_tokens(file)
    return file


@pytest.fixture(scope="session")
def reference_for(checkpoints, tokens):
    """(variant, clip_norm, dtype, epsilon) -> Reference; each is computed once."""
    import torch
    from reference import OPTIMIZER, train_reference

    @cache
    def compute(variant, clip_norm=None, dtype=torch.float32, epsilon=OPTIMIZER["epsilon"]):
        optimizer = OPTIMIZER | {"epsilon": epsilon}
        return train_reference(checkpoints[variant], tokens, clip_norm, dtype, optimizer)

    return compute
