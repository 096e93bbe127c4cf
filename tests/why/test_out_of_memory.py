"""A run that is out of memory leaves what its memory was used for, and `explain` tells it."""

import json
import re

from token_rows import write_tokens
from trainer import events_file, of_kind

EXPERIMENT = """experiment: full
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4,
                 num_key_value_heads: 4, vocab_size: 512}
  data: {kind: tokens, train: tokens.npy, sequence_length: 64}
  train.steps: 2
points:
  - {name: in a step, memory_limit_gib: 0.012, batch.size_per_rank: 32}
  - {name: at the start, memory_limit_gib: 0.0004}
"""


def test_explain_tells_what_used_the_memory(call, trainer, tmp_path):
    write_tokens(tmp_path)
    (tmp_path / "full.yaml").write_text(EXPERIMENT)
    call("full.yaml", "--trainer", trainer, fails_with=None)
    for point, phase, most in [("in a step", "forward|backward", "activations of attention"),
                               ("at the start", "start", "parameters")]:
        folder = next((tmp_path / "results/runs/full").glob(point.replace(" ", "-") + "~*"))
        written = [json.loads(line) for line in events_file(folder, 0).read_text().splitlines()]
        assert written[-1]["kind"] == "run_failed"
        peak = of_kind("memory_peak", written)[-1]
        limit = {"in a step": 0.012, "at the start": 0.0004}[point] * 2**30
        assert 0.5 * limit < peak["memory_allocated_bytes_max"] <= limit
        said = " ".join(call("explain", point).stdout.split())
        uses = {"in a step": "attention|mlp|hidden", "at the start": "parameters"}[point]
        assert re.search(f"the largest tensors at that time: ([0-9]+ x )?[^ ]+ [MK]iB ({uses})", said), said
        assert re.search(f"The tensors of a rank took [^ ]+ [MK]iB at most, in ({phase})(, unit [0-9]+)?: "
                         f"[^ ]+ [MK]iB {most}", said), said
