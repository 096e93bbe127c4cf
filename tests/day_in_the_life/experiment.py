"""The sweep that the faults disturb: real training of a tiny LLaMA, in every strategy."""
import numpy

NAME = "day"
OTHER = "other"
STEPS = 30
VOCABULARY = 64
ROWS = 256
SEQUENCE_LENGTH = 16

# Training sets: one stays as it is, one is edited and put back, and one is replaced for good.
STEADY, EDITED, REPLACED = "steady.npy", "edited.npy", "replaced.npy"
CONTENTS = {STEADY: 1, EDITED: 2, REPLACED: 3}  # seeds of their tokens
EDITION, REPLACEMENT = 4, 5  # seeds of the edited and of the replacing tokens
SETS = (STEADY, EDITED, STEADY, REPLACED)

STRATEGIES = (
    "strategy.kind: single, batch.size_per_rank: 16",
    "strategy: {kind: ddp, ranks: 2}",
    "strategy: {kind: fsdp, ranks: 2}",
    "strategy: {kind: fsdp, ranks: 2, sharding: shard_grad_op}",
    "strategy: {kind: fsdp, ranks: 2, offload: optimizer}",
    "strategy: {kind: fsdp, ranks: 2, offload: parameters}",
)
SAVES = (
    "checkpoint: {every_steps: 3, keep: 2}",
    "checkpoint: {every_steps: 3, keep: 1, state_dict: sharded}",
    "checkpoint: {every_steps: 4, keep: 2, at_end: true}, "
    "evaluation: {every_steps: 5, fraction: 0.1}",
)

BASE = f"""experiment: %s
base:
  device: cpu
  threads_per_rank: 1
  resume: auto
  train: {{steps: {STEPS}, warmup_steps_excluded: 2}}
  data: {{kind: tokens, sequence_length: {SEQUENCE_LENGTH}}}
  batch: {{size_per_rank: 4, total: 16}}
  communication: {{timeout_s: 60}}
  model: {{config: {{num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64,
    num_attention_heads: 2, num_key_value_heads: 2, vocab_size: {VOCABULARY}}}}}
points:
"""


def experiment(name, runs):
    """Returns the text of an experiment with `runs` points. No two points train alike."""
    points = []
    for number in range(runs):
        turn = number + number // len(STRATEGIES)  # combines each strategy with every set
        points.append(f"  - {{name: run {number}, train.seed: {number}, "
                      f"data.train: {SETS[turn % len(SETS)]}, "
                      f"{STRATEGIES[number % len(STRATEGIES)]}, {SAVES[turn % len(SAVES)]}}}\n")
    return BASE % name + "".join(points)


def tokens(seed):
    random = numpy.random.default_rng(seed)
    return random.integers(0, VOCABULARY, (ROWS, SEQUENCE_LENGTH + 1), dtype=numpy.int32)
