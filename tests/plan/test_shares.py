"""`plan --why` divides the difference of two plans among the keys that differ. By hand: --runs 200."""

import json
import random
import re

import pytest

KEYS = {
    "batch.size_per_rank": [1, 2, 4, 8],
    "data.sequence_length": [32, 64, 128, 256],
    "precision": ["fp32", "bf16_mixed", "bf16_true"],
    "activation_checkpointing.every": [0, 1],
    "optimizer.kind": ["adamw", "sgd"],
    "strategy": [{"kind": "single", "ranks": 1}, {"kind": "fsdp", "ranks": 2}, {"kind": "ddp", "ranks": 4},
                 {"kind": "fsdp", "ranks": 4, "sharding": "shard_grad_op"}],
    "method": ["full", "lora"],
    "batch.gradient_accumulation_steps": [1, 2, 3],
}
BASE = {"device": "cpu", "train.steps": 4, "data": {"kind": "chess"},
        "model.config": {"num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
                         "num_key_value_heads": 4, "vocab_size": 4096, "max_position_embeddings": 256}}
NUMBER = r"([+-][\d.]+(?:e-?\d+)?) GiB"


def half_a_digit(number: str) -> float:
    return 0.5 * 10 ** -len(number.partition(".")[2])


@pytest.fixture
def pair_of(call, trainer, tmp_path):
    """Returns a function that plans a pair of points. It returns the allocated bytes of each, and what is said."""
    def plan(one: dict, other: dict):
        points = [{"name": "one"} | one, {"name": "other"} | other]
        (tmp_path / "pair.yaml").write_text(json.dumps({"experiment": "pair", "base": BASE, "points": points}))
        rows = json.loads(call("plan", "pair.yaml", "--trainer", trainer, "--format", "json").stdout)
        said = call("plan", "pair.yaml", "--trainer", trainer, "--why").stdout
        return [row["memory_allocated_bytes_max"] for row in rows], " ".join(said.split())
    return plan


def test_shares_add_up_to_the_difference(pair_of, count, seed):
    draw = random.Random(seed)
    divided = 0
    for number in range(count):
        keys = draw.sample(list(KEYS), draw.randint(2, 6))
        values = {key: draw.sample(KEYS[key], 2) for key in keys}
        one, other = ({key: value[side] for key, value in values.items()} for side in (0, 1))
        (first, second), said = pair_of(one, other)
        found = re.search(r"by key, as planned: ([^:]*?)\.(?: |$)", said)
        assert found, (number, values, said)
        shares = re.findall(NUMBER, found[1])
        assert len(shares) >= 2
        slack = sum(map(half_a_digit, shares)) * 1.01
        assert sum(map(float, shares)) == pytest.approx((second - first) / 2**30, abs=slack), (number, values, said)
        divided += 1
    assert divided == count


def test_one_key_has_no_shares(pair_of):
    (first, second), said = pair_of({"batch.size_per_rank": 1}, {"batch.size_per_rank": 4})
    assert "by key" not in said
    total = re.search(f"Why: other against one: {NUMBER}", said)[1]
    assert float(total) == pytest.approx((second - first) / 2**30, abs=half_a_digit(total) * 1.01)
