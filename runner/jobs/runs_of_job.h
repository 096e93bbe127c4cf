#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/files/scratch_folder.h"
#include "runner/attempt/open_attempt.h"
#include "runner/jobs/job_plan.h"
#include "runner/progress/progress.h"
#include "runner/store/store.h"

namespace fsdp {

// Inside of a job: its runs as the user's runner planned them, in a database on this node.
class RunsOfJob {
 public:
  // `folder` is the submission's, `plan` what it holds, `task` the number in the array. Throws
  // ConfigError when the runs are not those that were submitted.
  RunsOfJob(const std::filesystem::path& folder, const JobPlan& plan, int64_t task,
            Progress& progress);
  ~RunsOfJob();

  Store& store() { return store_; }
  const std::vector<RunToLaunch>& runs() const { return runs_; }
  // The run that follows one which has ended, where a key is doubled inside of the job.
  std::optional<RunToLaunch> after(const RunToLaunch& ended, RunStatus status);
  // The number in the store of the job, by what Slurm calls it or its task.
  int64_t record_job(const std::string& slurm_job);

 private:
  struct Planned;

  ScratchFolder local_;
  std::string token_;
  Store store_;
  std::unique_ptr<Planned> planned_;  // in an allocation
  std::vector<RunToLaunch> runs_;
};

}  // namespace fsdp
