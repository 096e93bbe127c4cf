#pragma once

#include "contract/spec/run_spec.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Where the first values of the parameters come from.
//
// With model.source: the folder's weights, mapped; only the bytes asked for are read, and F32, BF16
// and F16 are converted to the dtype wanted. A call throws ConfigError when the checkpoint lacks
// one of the parameter's tensors, has it with another shape or dtype, or an element that is asked
// for is not finite.
//
// Else random: Initialization as the parameter says, as a function of train.seed, the tensor's name
// and the element's index alone, so that ranks, strategies and slices agree.
//
// Throws ConfigError when the checkpoint's files are not well formed.
FillParameter make_weight_source(const RunSpec& spec);

}  // namespace fsdp
