#pragma once

#include <functional>

#include "trainer/model/model.h"

namespace fsdp {

// One or more layers, from one activation to another, that draw no random numbers.
using Layers = std::function<Activation(Pass& pass, const Activation& x)>;

// layers(pass, x). Where pass.recomputed is `part`, nothing of them is kept but x: not what they
// save, nor, by those who read it, their output. Who first needs either in backward has both made
// again (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models").
Activation recomputable(Pass& pass, CheckpointedPart part, const Activation& x,
                        const Layers& layers);

}  // namespace fsdp
