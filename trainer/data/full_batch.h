#pragma once

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// Returns a micro-batch of `rows` full rows of `data`, each of one document. Every position has a
// label. It has no values on meta, else random tokens.
Batch full_batch(const DataSpec& data, const ModelConfig& config, int64_t rows, at::Device device);

}  // namespace fsdp
