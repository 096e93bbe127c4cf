#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/scratch_folder.h"
#include "base/text/fields.h"
#include "contract/spec/slurm_spec.h"
#include "runner/cluster/request.h"
#include "runner/experiment/experiment.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// The instructions for one job. They hold all that the user's planner knew, so the planner in an
// allocation decides the same. The submission's folder holds the plan, the experiment's text and a
// copy of the database without measurements.
struct JobPlan {
  std::string token;  // of the submission
  SlurmMode mode = SlurmMode::kPerRun;
  std::filesystem::path file;               // the experiment's file, absolute
  std::filesystem::path working_directory;  // base of relative paths in --set
  std::string profile = "auto";
  std::vector<std::string> set{};
  std::vector<std::string> only{};
  bool rerun = false;
  bool skip_oversized = false;
  std::vector<std::string> expected{};  // "FAMILY=VALUE": where searches of doubled keys begin
  std::filesystem::path results;        // absolute
  std::filesystem::path trainer;
  double time_limit_s = 0;  // per run; 0: no limit
  // The folders of the runs to launch, relative to the results. Task N of an array runs the Nth. In
  // an allocation, the planner must arrive at the same list.
  std::vector<std::string> runs{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("token", self.token);
    visit("mode", self.mode);
    visit("file", self.file);
    visit("working_directory", self.working_directory);
    visit("profile", self.profile);
    visit("set", self.set);
    visit("only", self.only);
    visit("rerun", self.rerun);
    visit("skip_oversized", self.skip_oversized);
    visit("expected", self.expected);
    visit("results", self.results);
    visit("trainer", self.trainer);
    visit("time_limit_s", self.time_limit_s);
    visit("runs", self.runs);
  }
};

// Writes job.yaml, experiment.yaml and planning.sqlite, which the command `attempt` reads. `folder`
// must exist. Call this after planning and before the runs are recorded as queued. The copy of the
// database then shows which runs had a result.
void write_job_plan(const std::filesystem::path& folder, const JobPlan& plan,
                    const std::string& experiment_text, const Store& store);

// Throws ConfigError if the plan cannot be read.
JobPlan read_job_plan(const std::filesystem::path& folder);

// Loads the experiment as it was at submission. Errors name the user's file.
Experiment load_planned_experiment(const std::filesystem::path& folder, const JobPlan& plan);

// Copies the submission's database to the place where a Store expects it.
void copy_planning_store(const std::filesystem::path& folder, const std::filesystem::path& results);

// The smallest request that has room for each run.
SlurmRequest largest_request(std::span<const RunRecord> runs);

// The input folders that a container of any of these runs must see, each once.
std::vector<std::filesystem::path> input_folders_of(std::span<const RunRecord> runs);

// Returns the section `slurm` that all runs share. Throws ConfigError if they differ.
const SlurmSpec& slurm_of_all(std::span<const RunRecord> runs);

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
