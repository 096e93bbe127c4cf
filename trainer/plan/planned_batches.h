#pragma once

#include <string>
#include <vector>

#include "contract/data/prepare.h"
#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// A step's micro-batches on meta, of which those stand for all that are computed one after the
// other: the first, the largest and the last. The others are as in memory as they are in a run.
struct PlannedStep {
  std::vector<Batch> computed;
  std::vector<Batch> others;
};

// What a run's ranks read in the steps that may take the most memory.
struct PlannedBatches {
  std::vector<std::function<PlannedStep()>> steps;  // each makes its batches when it is called
  std::vector<std::function<std::vector<Batch>()>> usual_steps;  // all micro-batches of some steps
  std::vector<std::function<Batch()>> evaluations;               // empty: the run wants none
  TextList assumptions;                                          // what of the data is not known
};

// Those with the widest micro-batches of all ranks, where rows differ and the data is prepared in
// `results`; else every row is taken to be full. `digest_of` tells what is prepared. `spec` is
// resolved, `config` its model's.
PlannedBatches planned_batches(const RunSpec& spec, const ModelConfig& config,
                               const std::filesystem::path& results, const FileDigestOf& digest_of);

}  // namespace fsdp
