"""Runs and plans refuse what no kernel of the GPU can do, before the first step."""

import json

import fork_server
import pytest
from few_games import few_games
from planning import request_of
from trainer import log_file, start, wait_for

BAD_CONFIGURATION = 2
RUN = {
    "model": {"config": {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
                         "num_key_value_heads": 4, "vocab_size": 1024, "max_position_embeddings": 64}},
    "data": {"kind": "chess", "train": str(few_games()), "sequence_length": 32},
    "strategy": {"kind": "single", "ranks": 1},
    "train": {"steps": 1},
    "device": "cuda",
}


@pytest.mark.parametrize(("capability", "precision", "head_dim", "reason"), [
    (80, "fp32", 10, ""),
    (80, "bf16_mixed", 12, ""),
    (80, "fp16_mixed", 20, ""),
    (75, "bf16_true", 16, "'precision': bf16 needs a GPU of compute capability 8.0 (Ampere) or later"),
    (75, "fp16_mixed", 12, ""),
    (80, "fp32", 12, ""),
    (80, "bf16_mixed", 24, ""),
    (89, "bf16_mixed", 200, ""),
])
def test_what_no_kernel_can_do(trainer, fake_cuda, capability, precision, head_dim, reason, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", f"{capability / 10}")
    config = RUN["model"]["config"] | {"head_dim": head_dim}
    spec = RUN | {"model": {"config": config}, "precision": precision}
    folder = tmp_path / "results" / "runs" / "refused" / "run"
    [process] = processes = start(trainer, spec, folder, preload=fake_cuda)
    wait_for(processes)
    assert process.returncode == (BAD_CONFIGURATION if reason else 0), log_file(folder, 0).read_text()
    assert reason in log_file(folder, 0).read_text()
    request = json.dumps(request_of(spec, tmp_path / "results", compute_capability=capability)) + "\n"
    answer = fork_server.run([trainer, "--plan"], request)
    if not reason:  # for bf16 without its hardware, plans only warn
        assert reason in json.loads(answer)["error"]
