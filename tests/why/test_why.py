"""`why` on runs whose times say nothing of each other."""

from token_rows import write_tokens

EXPERIMENT = """experiment: models
base:
  device: cpu
  threads_per_rank: 1
  model.config: {num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4,
                 num_key_value_heads: 4, vocab_size: 512}
  data: {kind: tokens, train: tokens.npy, sequence_length: 64}
  train.steps: 4
points:
  - {name: small}
  - {name: large, model.config.num_hidden_layers: 4}
"""


def test_times_of_different_models_are_not_compared_but_bytes_are(call, trainer, tmp_path):
    write_tokens(tmp_path)
    (tmp_path / "models.yaml").write_text(EXPERIMENT)
    call("models.yaml", "--trainer", trainer)
    said = call("why", "large", "small", "--trainer", trainer).stdout
    assert "times are not compared: the models differ" in said
    assert "prove little" not in said
    assert "ms" not in said.replace("problems", "")
    assert "GiB at the peak of a rank" in said and " GiB = +" in said
    alone = call("why", "large", "--trainer", trainer).stdout
    assert "ms a step" in alone
    assert "the times of large prove little: 2 steps" in alone
    assert "As planned, large: fits as it is." in alone
