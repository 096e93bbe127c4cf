"""The bytes that ranks read, and the memory that they use, when they start from a checkpoint."""

import json
import math
import re
import struct
from pathlib import Path

import pytest
import torch
from checkpoints import PLAIN_CONFIG
from test_against_transformers import Case
from trainer import events_file, log_file, start, train
from transformers import LlamaConfig, LlamaForCausalLM
from waiting import wait_until

MB = 2**20


def write_zeros(config: dict, folder: Path) -> int:
    """Writes a model of zeros as a sparse file. Returns the number of weights."""
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**config))
    header, end = {}, 0
    for name, tensor in model.state_dict().items():
        begin, end = end, end + 4 * tensor.numel()
        offsets = [begin, end]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    model.config.save_pretrained(folder)
    config_file = folder / "config.json"
    described = json.loads(config_file.read_text()) | {"architectures": ["LlamaForCausalLM"]}
    config_file.write_text(json.dumps(described))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return end // 4


def weights_read(folder: Path, ranks: int) -> list[int]:
    logs = [log_file(folder, rank).read_text() for rank in range(ranks)]
    return [int(re.search(r"read (\d+) of \d+ weights", log)[1]) for log in logs]


@pytest.mark.parametrize(
    "case, strategy",
    [
        (Case("fsdp", ranks=4), {}),
        (Case("ddp", ranks=3), {}),
        (Case("fsdp", ranks=4), {"sharding": "hybrid_shard", "shard_group_size": 2}),
    ],
    ids=["fsdp", "ddp", "hybrid_shard"],
)
def test_each_weight_is_read_once(trainer, case, strategy, tokens, tmp_path):
    config = PLAIN_CONFIG | dict(hidden_size=400, intermediate_size=1200, num_hidden_layers=2)
    weights = write_zeros(config, tmp_path / "model")
    spec = case.spec(tmp_path / "model", tokens, train={"steps": 1})
    spec["strategy"] |= strategy
    run = train(trainer, spec, tmp_path / "run")
    assert run.losses() == pytest.approx([math.log(config["vocab_size"])])
    read = weights_read(tmp_path / "run", case.ranks)
    if case.kind == "fsdp" and not strategy:
        assert sum(read) == weights
    # Replicas do not divide small parameters.
    assert weights <= sum(read) <= 1.06 * weights, read
    assert max(read) <= 1.2 * weights / case.ranks, read


def largest_rss_anon(processes: list, folder: Path) -> int:
    """Returns the largest RssAnon of any rank until all have begun to train, in bytes, sampled from
    /proc."""
    sizes = []

    def has_begun(rank: int) -> bool:
        assert processes[rank].poll() is None, log_file(folder, rank).read_text()
        status = Path(f"/proc/{processes[rank].pid}/status").read_text()
        sizes.extend(int(size) * 1024 for size in re.findall(r"RssAnon:\s+(\d+)", status))
        events = events_file(folder, rank)
        return events.exists() and "run_started" in events.read_text()

    wait_until("all ranks train", lambda: all([has_begun(rank) for rank in range(len(processes))]))
    return max(sizes)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_no_rank_holds_more_than_its_part_and_a_unit(trainer, optimizer, tokens, tmp_path):
    config = PLAIN_CONFIG | dict(vocab_size=16000, hidden_size=1024, intermediate_size=2816,
                                 num_hidden_layers=12, num_attention_heads=16,
                                 num_key_value_heads=16)
    ranks = 4
    weights = write_zeros(config, tmp_path / "model")
    embedding = config["vocab_size"] * config["hidden_size"]
    case = Case("fsdp", ranks=ranks)
    spec = case.spec(tmp_path / "model", tokens, optimizer={"kind": optimizer})
    processes = start(trainer, spec, tmp_path / "run")
    try:
        largest = largest_rss_anon(processes, tmp_path / "run")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    allowed = 4 * (weights // ranks + embedding) + 256 * MB
    assert allowed < 4 * weights  # so a rank with all weights fails the test
    assert largest < allowed
