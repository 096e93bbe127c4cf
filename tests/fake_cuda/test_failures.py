"""A rank that fails takes the others with it, which name it, although they wait on their GPUs for NCCL."""

import json
import os
import signal
import time

import pytest
from trainer import events_file, of_kind, start

OUT_OF_MEMORY, COMMUNICATION = 3, 4
LIMIT_S = 60  # of a test, for hosts that do much else


def run(ranks: int) -> dict:
    return {
        "model": {"config": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
                             "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 4096,
                             "max_position_embeddings": 128}},
        "data": {"kind": "chess", "sequence_length": 64},
        "strategy": {"kind": "fsdp", "ranks": ranks},
        "batch": {"size_per_rank": 16},
        "train": {"steps": 100000},
        "communication": {"timeout_s": 20},
        "device": "cuda",
        "kernels": "aten",
        "threads_per_rank": 1,
    }


def wait_for_all(processes: list) -> list[int]:
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(process.poll() is None for process in processes):
            assert time.monotonic() < deadline, [process.poll() for process in processes]
            time.sleep(0.01)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes]


def events(folder, rank: int) -> list[dict]:
    return [json.loads(line) for line in events_file(folder, rank).read_text().splitlines()]


def reason(folder, rank: int) -> str:
    [failed] = of_kind("run_failed", events(folder, rank))
    return failed["reason"]


@pytest.mark.parametrize(("ranks", "full"), [(2, 0), (2, 1), (4, 2)])
@pytest.mark.parametrize("free_mib", [9, 14, 24])  # the workspace, the weights, a step
def test_one_rank_out_of_memory(trainer, fake_cuda, ranks, full, free_mib, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")
    monkeypatch.setenv("FAKE_CUDA_FREE_MIB", f"{full}:{free_mib}")
    codes = wait_for_all(start(trainer, run(ranks), tmp_path / "run", preload=fake_cuda))
    for rank in range(ranks):
        if rank == full:
            assert codes[rank] == OUT_OF_MEMORY
            assert "CUDA out of memory" in reason(tmp_path / "run", rank)
        else:
            assert codes[rank] == COMMUNICATION, codes
            assert f"rank {full} of {ranks} failed: CUDA out of memory" in reason(tmp_path / "run", rank)


def test_a_rank_that_is_killed_is_missed_by_the_watchdog(trainer, fake_cuda, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")
    processes = start(trainer, run(2), tmp_path / "run", preload=fake_cuda)
    deadline = time.monotonic() + LIMIT_S
    while not events_file(tmp_path / "run", 1).exists() or not of_kind("step", events(tmp_path / "run", 1)):
        assert time.monotonic() < deadline and processes[1].poll() is None
        time.sleep(0.01)
    os.kill(processes[1].pid, signal.SIGKILL)
    assert wait_for_all(processes) == [COMMUNICATION, -signal.SIGKILL]
    assert "took longer than 20 s" in reason(tmp_path / "run", 0)
