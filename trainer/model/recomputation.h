#pragma once

#include <functional>

#include "trainer/model/model.h"

namespace fsdp {

// One or more layers from one activation to another. A second call computes the same: dropout
// depends only on its given seed.
using Layers = std::function<Activation(Pass& pass, const Activation& x)>;

// Returns layers(pass, x). If pass.recomputed is `part`, only x is kept: neither the layers nor the
// readers of their output save anything else. The first reader in backward of the saved values
// or the output recomputes both (Korthikanti et al. 2022, "Reducing Activation Recomputation in
// Large Transformer Models").
Activation recomputable(Pass& pass, CheckpointedPart part, const Activation& x,
                        const Layers& layers);

}  // namespace fsdp
