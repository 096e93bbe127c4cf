#pragma once

#include "contract/families/flops.h"
#include "contract/spec/strategy_spec.h"

namespace fsdp {

// The FLOPs computed in training: model_flops, and a second forward of all that activation
// checkpointing recomputes. The backward of fused attention counts as two forwards, although it
// computes its first product again.
double hardware_flops(const ForwardFlops& forward,
                      const ActivationCheckpointingSpec& checkpointing);

}  // namespace fsdp
