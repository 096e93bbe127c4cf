"""Each family's logits are those of its class of transformers."""

import subprocess

import numpy
import pytest
import torch
from checkpoints import SEQUENCE_LENGTH, VARIANTS, VOCABULARY_SIZE
from test_encoder_decoder import VARIANTS as T5_VARIANTS
from test_encoder_decoder import write_model
from transformers import AutoModelForCausalLM, T5ForConditionalGeneration

TOLERANCE = 1e-4
ROWS = 4


@pytest.fixture
def ours(request):
    """ours(folder, ids, counts of them and the decoder's ids): the logits, [rows, positions, vocabulary]."""
    program = request.config.getoption("--logits")
    assert program, "give the program: --logits build/release/logits"

    def logits(folder, ids, *decoder):
        shapes = [*ids.shape, *(part.shape[1] for part in decoder[1:])]
        done = subprocess.run([program, folder, *map(str, shapes)], check=True, stdout=subprocess.PIPE,
                              input=b"".join(part.numpy().tobytes() for part in (ids, *decoder)))
        positions = shapes[-1]
        return torch.from_numpy(numpy.frombuffer(done.stdout, "<f4").reshape(ROWS, positions, -1).copy())

    return logits


def assert_equal(ours, theirs):
    assert theirs.abs().max() > 0.5  # so that a tolerance that is absolute tells something
    assert (ours - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("variant", VARIANTS)
def test_of_decoders(ours, checkpoints, variant):
    ids = torch.randint(VOCABULARY_SIZE, (ROWS, SEQUENCE_LENGTH), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        theirs = AutoModelForCausalLM.from_pretrained(checkpoints[variant]).eval()(ids).logits
    assert_equal(ours(checkpoints[variant], ids), theirs)


@pytest.mark.parametrize("variant", T5_VARIANTS)
def test_of_an_encoder_and_a_decoder(ours, tmp_path, variant):
    folder = write_model(tmp_path / variant, variant, dropout=0.1)
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(1024, (ROWS, 30), generator=draw)
    counts = torch.tensor([30, 1, 17, 29])
    decoder_ids = torch.randint(1024, (ROWS, 26), generator=draw)
    mask = torch.arange(30)[None, :] < counts[:, None]
    with torch.no_grad():
        theirs = T5ForConditionalGeneration.from_pretrained(folder).eval()(
            input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits
    assert_equal(ours(folder, ids, counts, decoder_ids), theirs)
