"""The losses that the quick tests compare with are those of today's transformers, PEFT and
bitsandbytes."""

import sys

from agreement import assert_close
from test_stored_losses import LOSSES, STORED

sys.path.append(str(STORED))


def test_the_stored_losses_are_computed_anew():
    from write import reference_losses

    losses = reference_losses()
    assert losses.keys() == LOSSES.keys()
    for model, stored in LOSSES.items():
        assert_close(model, stored, losses[model], 1e-6)
