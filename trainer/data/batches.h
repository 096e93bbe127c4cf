#pragma once

#include <cstdint>
#include <vector>

#include "contract/families/flops.h"
#include "contract/spec/run_spec.h"
#include "trainer/data/data_set.h"
#include "trainer/data/sampler.h"
#include "trainer/model/model.h"

namespace fsdp {

// What one rank trains on in one step, and how much all ranks do.
struct StepBatches {
  std::vector<Batch> micro_batches;  // size_per_rank rows each
  int64_t tokens = 0;                // that the models read, filling included
  int64_t unpadded_tokens = 0;       // without it
  int64_t label_count = 0;           // that are trained on
};

// What a model computes of it.
BatchShape shape_of(const Batch& batch);

// Loads `rank`'s micro-batches of `step`, counted from 0, to `device`. Each one's loss_scale is
// 1 / the global batch's label count, which every rank counts for itself (0 where nothing is
// trained on); its seed follows from train.seed, the step and its place among those of all ranks.
// For CUDA the copies are queued on the current stream from pinned memory. `spec` is resolved;
// `sampler` is its.
StepBatches load_step(DataSet& data_set, Sampler& sampler, int64_t step, int64_t rank,
                      const RunSpec& spec, at::Device device);

}  // namespace fsdp
