"""A part of a step is made slower, and `why` names it as the largest part of the difference. By hand, on idle cores:
--runs 40 -k random tries 40 causes of random size, and 40 pairs of equal runs, of which nothing may be said."""

import csv
import io
import random
import re

import pytest
from hostile.event_model import MS_BY_PART
from token_rows import write_tokens

RANKS = 2
EXPERIMENT = """experiment: causes
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 3, hidden_size: 256, intermediate_size: 512, num_attention_heads: 4,
                 num_key_value_heads: 4, vocab_size: 512}
  data: {kind: tokens, train: tokens.npy, sequence_length: 64}
  strategy: {kind: fsdp, ranks: 2}
  batch.size_per_rank: 2
  train: {steps: 8, account_steps: 5}
points:
  - {name: usual}
  - {name: slow, environment: [%s]}
"""


@pytest.fixture
def runs(call, trainer, slow_parts, tmp_path):
    """Returns a function that trains the usual and the slow run. It returns their figures, and the
    words of `why` on their times."""
    write_tokens(tmp_path)

    def train(part, time_ms, rank=None, call_of_step=None):
        variables = [f"LD_PRELOAD={slow_parts}", f"SLOW_PART={part}", f"SLOW_MS={time_ms}"]
        variables += [f"SLOW_RANK={rank}"] if rank is not None else []
        variables += [f"SLOW_CALL={call_of_step}"] if call_of_step is not None else []
        (tmp_path / "causes.yaml").write_text(EXPERIMENT % ", ".join(variables))
        call("causes.yaml", "--trainer", trainer, "--rerun")
        table = call("report", "--format", "csv", "--per-run").stdout
        usual, slow = csv.DictReader(io.StringIO(table))
        words = call("why", "slow", "usual", "--trainer", trainer).stdout
        return usual, slow, re.search(r"^([+-]\S+) ms a step = ([+-]\S+) ([^,]*)", words, re.MULTILINE)
    return train


def more(slow, usual, names):
    return sum(float(slow[name]) - float(usual[name]) for name in names)


CAUSES = {  # part: (time of one call, words, columns)
    "optimizer": (100, "optimizer", ["optimizer_ms"]),
    "products": (15, "products", ["products_forward_ms", "products_backward_ms"]),
    "gather": (120, "all-gathers that nothing hides", ["exposed_all_gather_ms"]),
    "reduce": (40, "reduce-scatters that nothing hides", ["exposed_reduce_scatter_ms"]),
    "data": (250, "data", ["data_ms"]),
}


@pytest.mark.parametrize("part, time_ms, words, columns",
                         [(part, *of_part) for part, of_part in CAUSES.items()])
def test_a_slow_part_is_named(runs, part, time_ms, words, columns):
    usual, slow, said = runs(part, time_ms)
    assert said[3].startswith(words), said[0]
    assert more(slow, usual, columns) == pytest.approx(more(slow, usual, MS_BY_PART), rel=0.2)


@pytest.mark.parametrize("slow_rank", range(RANKS))
def test_a_part_that_is_slow_on_one_rank_is_named_with_the_rank(runs, slow_rank):
    usual, slow, said = runs("products", 15, slow_rank)
    assert slow["account_rank"] == str(slow_rank)
    assert said[3].startswith(f"products (on rank {slow_rank} alone)"), said[0]
    assert float(slow["slowest_rank_extra_ms"]) == pytest.approx(more(slow, usual, MS_BY_PART), rel=0.2)


@pytest.mark.parametrize("phase, call_of_step", [("forward", 9), ("backward", 28)])
def test_a_rank_that_is_slow_in_a_single_unit_is_named_with_the_time_of_that_unit(runs, phase, call_of_step):
    usual, slow, said = runs("products", 300, 1, call_of_step)
    assert said[3].startswith("products (on rank 1 alone)"), said[0]
    assert more(slow, usual, [f"products_{phase}_ms"]) == pytest.approx(300, rel=0.2)
    assert float(slow["slowest_rank_extra_ms"]) == pytest.approx(300, rel=0.2)


def random_cause(draw):
    """Returns what is made slower, the time of a call, the rank (None: all ranks), and where the time is then."""
    if draw.random() < 0.3:
        rank = draw.randrange(RANKS)
        return "products", draw.uniform(8, 25), rank, f"products (on rank {rank} alone)", ["slowest_rank_extra_ms"]
    if draw.random() < 0.2:  # a slow link slows both
        return "link", draw.uniform(200, 500), None, "", ["exposed_all_gather_ms", "exposed_reduce_scatter_ms"]
    part = draw.choice(list(CAUSES))
    time_ms, words, columns = CAUSES[part]
    return part, time_ms * draw.uniform(0.7, 2), None, words, columns


def test_random_causes_are_named_with_their_size(runs, request, seed):
    draw = random.Random(seed)
    wrong = []
    for number in range(request.config.getoption("--runs") or 1):
        part, time_ms, rank, words, columns = random_cause(draw)
        usual, slow, said = runs(part, time_ms, rank)
        found, whole = more(slow, usual, columns), more(slow, usual, MS_BY_PART)
        print(number, part, f"{time_ms:.0f} ms, rank {rank}: {found:.1f} of {whole:.1f} ms: {said and said[0]}")
        if said is None or not said[3].startswith(words) or abs(found - whole) > 0.2 * whole:
            wrong.append((number, part, time_ms, rank, found, whole, said and said[0]))
    assert not wrong


def test_random_equal_runs_have_no_reason(runs, call, request):
    count = request.config.getoption("--runs")
    if not count:
        pytest.skip("by hand: needs idle cores and --runs")
    named = []
    for number in range(count):
        runs("optimizer", 0)
        report = " ".join(call("report").stdout.split())
        named += [(number, found) for found in re.findall(r"Why: .*? ms a step[^.]*", report)]
    assert not named
