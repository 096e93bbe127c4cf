#pragma once

#include <cstdint>
#include <vector>

#include "contract/families/flops.h"
#include "contract/spec/run_spec.h"
#include "trainer/data/data_set.h"
#include "trainer/data/sampler.h"
#include "trainer/model/model.h"

namespace fsdp {

// One rank's micro-batches in one step, and the sizes over all ranks.
struct StepBatches {
  std::vector<Batch> micro_batches;  // size_per_rank rows each
  int64_t tokens = 0;                // read by the models, filling included
  int64_t unpadded_tokens = 0;       // the same without filling
  int64_t label_count = 0;           // trained on
};

// Returns the sizes that a model's work on the batch depends on.
BatchShape shape_of(const Batch& batch);

// Loads `rank`'s micro-batches of `step`, counted from 0, to `device`. Each loss_scale is 1 / the
// number of labels in the global batch, or 0 if there are none; every rank counts them itself. Each
// seed follows from train.seed, the step and the micro-batch's number in the global batch. For
// CUDA, copies from pinned memory are queued on the current stream. `spec` is resolved, and
// `sampler` was made for it.
StepBatches load_step(DataSet& data_set, Sampler& sampler, int64_t step, int64_t rank,
                      const RunSpec& spec, at::Device device);

}  // namespace fsdp
