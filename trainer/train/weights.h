#pragma once

#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Returns the source of the parameters' initial values.
//
// With model.source, the values come from the folder's files. Only the requested bytes are read.
// F32, BF16 and F16 are converted to the wanted dtype. A call throws ConfigError if the checkpoint
// lacks a tensor of the parameter or has it with another shape or dtype. It also throws if a
// requested element is not finite in the wanted dtype.
//
// Otherwise values are random, by the parameter's Initialization. They depend only on train.seed,
// the tensor's name and the element's index, so ranks, strategies and slices agree.
//
// Throws ConfigError if the checkpoint's files are not well formed.
FillParameter make_weight_source(const RunSpec& spec);

// Returns the source of the weights of a run that goes on from a checkpoint, which outlives it.
// What is frozen comes from make_weight_source(). A null checkpoint: all weights do.
FillParameter weights_of(const RunSpec& spec, const CheckpointReader* checkpoint);

// Returns the end of a message about a finite value that is infinite in this dtype, with a remedy.
std::string infinite_in(at::ScalarType dtype);

}  // namespace fsdp
