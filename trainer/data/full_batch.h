#pragma once

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// A micro-batch of `rows` rows of `data` that are full, each of one document. On meta without
// values, else of random tokens; every position has a label.
Batch full_batch(const DataSpec& data, const ModelConfig& config, int64_t rows, at::Device device);

}  // namespace fsdp
