#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/files/scratch_folder.h"
#include "runner/attempt/attempt.h"
#include "runner/jobs/job_plan.h"
#include "runner/progress/progress.h"
#include "runner/store/store.h"

namespace fsdp {

// The runs inside a job, as the user's runner planned them, in a database on this node.
class RunsOfJob {
 public:
  // `folder` is the submission's folder with the plan `plan`. `task` is the number in the array.
  // Throws ConfigError if the runs differ from the submitted ones.
  RunsOfJob(const std::filesystem::path& folder, const JobPlan& plan, int64_t task,
            Progress& progress);
  ~RunsOfJob();

  Store& store() { return store_; }
  const std::vector<RunRecord>& runs() const { return runs_; }
  // Returns the run that follows an ended run, if the job doubles a key.
  std::optional<RunRecord> after(const RunRecord& ended, RunStatus status);
  // Records the job under Slurm's name of it or its task. Returns its number in the store.
  int64_t record_job(const std::string& slurm_job);

 private:
  struct Planned;

  ScratchFolder local_;
  std::string token_;
  Store store_;
  std::unique_ptr<Planned> planned_;  // in an allocation
  std::vector<RunRecord> runs_;
};

}  // namespace fsdp
