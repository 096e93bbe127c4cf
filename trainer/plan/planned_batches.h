#pragma once

#include <string>
#include <vector>

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "formats/data/prepare.h"
#include "trainer/model/model.h"

namespace fsdp {

// A step's micro-batches on meta. Only the first, the largest and the last are computed, because no
// other needs more memory. The others only occupy memory, as they do in a run.
struct PlannedStep {
  std::vector<Batch> computed;
  std::vector<Batch> others;
};

// The batches of a run: of the steps that may take the most memory, and of usual steps.
struct PlannedBatches {
  std::vector<std::function<PlannedStep()>> steps;               // each call makes a step's batches
  std::vector<std::function<std::vector<Batch>()>> usual_steps;  // all micro-batches of some steps
  std::vector<std::function<Batch()>> evaluations;               // empty: the run has no evaluation
  TextList assumptions;                                          // about unknown data
};

// Returns the run's own batches if they can be read now: from token files, or from prepared files
// in `results`. Otherwise, or if rows are padded to full length, takes every row to be full.
// `digest_of` identifies prepared data. `spec` is resolved, and `config` is its model.
PlannedBatches planned_batches(const RunSpec& spec, const ModelConfig& config,
                               const std::filesystem::path& results, const FileDigestOf& digest_of);

}  // namespace fsdp
