#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/progress/progress.h"
#include "runner/store/scratch_folder.h"
#include "runner/store/store.h"
#include "runner/sweep/allocation_plan.h"
#include "runner/sweep/open_attempt.h"
#include "runner/sweep/run_planner.h"

namespace fsdp {

// Inside of the job: the experiment as the user's runner planned it, in a database on this node.
class PlannedAllocation {
 public:
  // `folder` is the submission's, `plan` what it holds. Throws ConfigError when the runs are not
  // those that were submitted.
  PlannedAllocation(const std::filesystem::path& folder, const AllocationPlan& plan,
                    Progress& progress);

  Store& store() { return store_; }
  RunPlanner& planner() { return planner_; }
  const std::vector<RunToLaunch>& runs() const { return runs_; }
  // The number in the store of the job with this id, which may be there already.
  int64_t record_job(const std::string& slurm_job);

 private:
  ScratchFolder local_;
  std::string token_;
  Store store_;
  Experiment experiment_;
  FileDigest digest_;
  RunPlanner planner_;
  std::vector<RunToLaunch> runs_;
};

}  // namespace fsdp
