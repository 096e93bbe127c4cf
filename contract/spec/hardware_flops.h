#pragma once

#include "contract/families/flops.h"
#include "contract/spec/strategy_spec.h"

namespace fsdp {

// What is computed in training: model_flops, and once more the forward of all that activation
// checkpointing recomputes. The backward of fused attention, which computes its first product
// again, counts as two forwards all the same.
double hardware_flops(const ForwardFlops& forward,
                      const ActivationCheckpointingSpec& checkpointing);

}  // namespace fsdp
