"""fsdp-train's logits equal those of transformers, in training and in evaluation."""

from functools import cache

import numpy
import pytest
import torch
from checkpoints import FAMILIES, TOTAL_BATCH, VARIANTS
from logits import assert_same_logits, first_logits
from test_against_transformers import Case, cases
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="module")
def reference_logits(checkpoints, tokens):
    """variant -> logits of the first batch."""

    @cache
    def compute(variant: str) -> numpy.ndarray:
        model = AutoModelForCausalLM.from_pretrained(checkpoints[variant], dtype=torch.float32)
        rows = torch.from_numpy(numpy.load(tokens)[:TOTAL_BATCH, :-1].astype(numpy.int64))
        with torch.no_grad():
            return model(rows, use_cache=False).logits.flatten(0, 1).numpy()

    return compute


def check(logits_writer, case, checkpoint, tokens, expected, folder):
    logits = first_logits(logits_writer, case.spec(checkpoint, tokens), tokens, folder)
    assert_same_logits(expected, logits.training)
    assert_same_logits(expected, logits.evaluation)


@cases(Case("ddp", ranks=2, accumulation=2), Case("fsdp", ranks=3))
def test_strategy(logits_writer, case, checkpoints, tokens, reference_logits, tmp_path):
    check(logits_writer, case, checkpoints["plain"], tokens, reference_logits("plain"), tmp_path)


@pytest.mark.parametrize("variant", ["plain", *FAMILIES])
@cases(Case("single"), Case("fsdp", "parameters", ranks=2, checkpoint_every=1))
def test_family(logits_writer, case, variant, checkpoints, tokens, reference_logits, tmp_path):
    check(logits_writer, case, checkpoints[variant], tokens, reference_logits(variant), tmp_path)


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - {"plain", *FAMILIES}))
def test_llama(logits_writer, variant, checkpoints, tokens, reference_logits, tmp_path):
    folder = checkpoints[variant]
    check(logits_writer, Case("single"), folder, tokens, reference_logits(variant), tmp_path)
