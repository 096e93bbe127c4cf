"""If a rank fails, the other ranks end and name it, although they wait on their GPUs for NCCL."""

import os
import signal

import pytest
from failing_run import COMMUNICATION, OUT_OF_MEMORY, events, reason, run, write_trainer
from trainer import log_file, of_kind, start, start_ranks, wait_for, wait_until_well_ended
from waiting import LIMIT_S, wait_until


@pytest.fixture(autouse=True)
def capability(monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "8.0")


def check_out_of_memory(codes: list[int], full: int, folder) -> None:
    ranks = len(codes)
    assert codes == [OUT_OF_MEMORY if rank == full else COMMUNICATION for rank in range(ranks)]
    own = reason(folder, full)
    assert "out of memory" in own
    for rank in range(ranks):
        assert rank == full or reason(folder, rank) == f"rank {full} of {ranks} failed: {own}"


@pytest.mark.parametrize(("ranks", "full"), [(2, 0), (2, 1), (4, 2)])
@pytest.mark.parametrize("free_mib", [9, 14, 24])  # fails at the workspace, the weights, a step
def test_one_rank_out_of_memory(trainer, fake_cuda, ranks, full, free_mib, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FREE_MIB", f"{full}:{free_mib}")
    codes = wait_for(start(trainer, run(ranks), tmp_path / "run", preload=fake_cuda))
    check_out_of_memory(codes, full, tmp_path / "run")
    assert "CUDA out of memory" in reason(tmp_path / "run", full)
    if free_mib == 24:
        log = log_file(tmp_path / "run", full).read_text()
        assert "KiB optimizer_state" in log.partition("the largest tensors at that time: ")[2]


# Each phase has an operation that no phase before it has, or that has come once before.
@pytest.mark.parametrize(("phase", "operation"), [
    ("forward", "aten::_scaled_dot_product_efficient_attention"),
    ("backward", "aten::_scaled_dot_product_efficient_attention_backward"),
    ("optimizer", "aten::_foreach_norm"),
    ("evaluation", "aten::eq@2"),
    ("checkpoint", "cudaHostRegister"),
])
def test_one_rank_out_of_memory_in(trainer, fake_cuda_with_order, phase, operation, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FULL_IN", f"1:{operation}")
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")  # every allocation asks the device
    spec = run(2) | {"optimizer": {"gradient_clip_norm": 1.0}, "evaluation": {"every_steps": 1, "fraction": 0.02},
                     "checkpoint": {"every_steps": 1}}
    if phase == "checkpoint":
        del spec["evaluation"]
    codes = wait_for(start(trainer, spec, tmp_path / "run", preload=fake_cuda_with_order))
    check_out_of_memory(codes, 1, tmp_path / "run")
    kinds = [event["kind"] for event in events(tmp_path / "run", 1)]
    assert kinds.count("evaluation") == kinds.count("checkpoint") == 0
    assert kinds.count("step") == (phase in ("evaluation", "checkpoint"))


HYBRID = {"kind": "fsdp", "ranks": 4, "sharding": "hybrid_shard", "shard_group_size": 2}


# If an error unwound the stack, the parts of the ranks would end their connections, which waits for the other ranks.
def test_a_rank_that_throws_in_calibrate_tells_the_others_first(trainer, fake_cuda, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FULL_IN", "1:ncclCommInitRank@3")  # of its replicas, after that of its shards
    spec = run(4) | {"strategy": HYBRID}
    codes = wait_for(start(trainer, spec, tmp_path / "run", 1, fake_cuda, "--calibrate", str(tmp_path)))
    assert codes == [COMMUNICATION] * 4
    assert "rank 1 of 4 failed: all_gather failed on rank 1 of 4" in reason(tmp_path / "run", 0)


def test_a_trainer_that_throws_in_its_constructor_tells_the_others_first(trainer, fake_cuda, tmp_path, monkeypatch):
    spec = run(1) | {"strategy": {"kind": "single", "ranks": 1}, "train": {"steps": 1}, "checkpoint": {"at_end": True}}
    wait_until_well_ended(start(trainer, spec, tmp_path / "model", preload=fake_cuda), tmp_path / "model")
    monkeypatch.setenv("FAKE_CUDA_FULL_IN", "1:cudaHostRegister")  # after weights were read once for all replicas
    spec = run(4) | {"strategy": HYBRID | {"offload": "parameters"},
                     "model": {"source": str(next((tmp_path / "model/checkpoints").iterdir()))}}
    codes = wait_for(start(trainer, spec, tmp_path / "run", preload=fake_cuda))
    check_out_of_memory(codes, 1, tmp_path / "run")


def test_a_rank_that_throws_in_the_self_test_tells_the_others(trainer, fake_cuda_with_order, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FULL_IN", "1:aten::ne")
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    (tmp_path / "attempt-1").mkdir()
    ranks = start_ranks(trainer, ["--self-test=ranks"], 2, tmp_path, preload=fake_cuda_with_order)
    assert wait_for(ranks) == [COMMUNICATION, OUT_OF_MEMORY]
    said = log_file(tmp_path, 0).read_text()
    assert "fsdp-train: rank 1 of 2 failed: " in said and "out of memory" in said


@pytest.mark.parametrize(("ranks", "killed"), [(2, 0), (4, 3)])  # rank 0 serves the store
def test_a_rank_that_is_killed_is_missed_by_those_of_its_host(trainer, fake_cuda, ranks, killed, tmp_path):
    processes = start(trainer, run(ranks), tmp_path / "run", preload=fake_cuda)
    wait_until("all have begun", lambda: all(events(tmp_path / "run", rank) for rank in range(ranks)))
    processes[killed].kill()
    codes = wait_for(processes)
    assert codes == [-signal.SIGKILL if rank == killed else COMMUNICATION for rank in range(ranks)]
    for rank in range(ranks):
        if rank != killed:
            assert reason(tmp_path / "run", rank).startswith(f"rank {killed} of {ranks} failed: its process ended without a message")


def test_a_rank_that_is_suspended_is_missed_by_the_watchdog(trainer, fake_cuda, tmp_path):
    spec = run(2) | {"communication": {"timeout_s": 10}}
    processes = start(trainer, spec, tmp_path / "run", preload=fake_cuda)
    wait_until("rank 1 steps", lambda: of_kind("step", events(tmp_path / "run", 1)))
    os.kill(processes[1].pid, signal.SIGSTOP)
    assert processes[0].wait(timeout=LIMIT_S) == COMMUNICATION
    wait_for(processes[:1])
    processes[1].kill()
    processes[1].wait()
    assert "took longer than 10 s" in reason(tmp_path / "run", 0)


def test_a_rank_that_never_comes_is_named(trainer, fake_cuda, tmp_path):
    spec = run(3) | {"communication": {"rendezvous_timeout_s": 15}}
    absent = write_trainer(tmp_path, trainer, fake_cuda, first='[ "$RANK" = 1 ] && exit 0')
    assert wait_for(start(absent, spec, tmp_path / "run")) == [COMMUNICATION, 0, COMMUNICATION]
    assert "these ranks never connected: 1" in reason(tmp_path / "run", 0)
