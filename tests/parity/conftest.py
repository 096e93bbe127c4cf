import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from trainer import start, wait_for

# Only fixtures import torch and transformers, which takes seconds. xdist's first process also reads
# this file, but runs no test.


@pytest.fixture
def kill_at_call(kill_at_call_library, monkeypatch, trainer):
    """kill_at_call(call, spec, folder) trains `spec` until a rank is killed. `call` is the number,
    from 1, of the rank's system call that changes a file system."""
    def train_until_killed(call: int, spec: dict, folder: Path) -> None:
        monkeypatch.setenv("KILL_AT_CALL", str(call))
        processes = start(trainer, spec, folder, preload=kill_at_call_library)
        monkeypatch.delenv("KILL_AT_CALL")
        assert -signal.SIGKILL in wait_for(processes)

    return train_until_killed


class HeldDisk:
    """Starts ranks. Their calls of fsync block until release()."""

    def __init__(self, library: Path, fifo: Path, monkeypatch):
        self.library, self.fifo, self.monkeypatch = library, fifo, monkeypatch
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
def held_disk(hold_fsync_library, monkeypatch, tmp_path) -> Iterator[HeldDisk]:
    disk = HeldDisk(hold_fsync_library, tmp_path / "fifo", monkeypatch)
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
    return copy_with_changed_tensor(checkpoints["plain"], folder, "model.norm.weight",
                                    lambda norm: norm.mul_(30))


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
