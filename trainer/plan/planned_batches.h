#pragma once

#include <string>
#include <vector>

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "formats/data/prepare.h"
#include "trainer/model/model.h"

namespace fsdp {

// A step's micro-batches on meta. Only the first, the largest and the last are computed; they stand
// for all. The others occupy memory as they do in a run.
struct PlannedStep {
  std::vector<Batch> computed;
  std::vector<Batch> others;
};

// The batches that a run's ranks read in the steps that may take the most memory.
struct PlannedBatches {
  std::vector<std::function<PlannedStep()>> steps;               // each call makes its batches
  std::vector<std::function<std::vector<Batch>()>> usual_steps;  // all micro-batches of some steps
  std::vector<std::function<Batch()>> evaluations;               // empty: the run wants none
  TextList assumptions;                                          // assumptions about unknown data
};

// Returns the steps with the widest micro-batches of all ranks if rows differ and `results` holds
// the prepared data. Otherwise every row is taken to be full. `digest_of` identifies prepared data.
// `spec` is resolved, and `config` is its model's.
PlannedBatches planned_batches(const RunSpec& spec, const ModelConfig& config,
                               const std::filesystem::path& results, const FileDigestOf& digest_of);

}  // namespace fsdp
