#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/scratch_folder.h"
#include "base/text/fields.h"
#include "contract/spec/slurm_spec.h"
#include "runner/cluster/request.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/experiment.h"
#include "runner/host/provenance.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt.h"
#include "runner/run/run_planner.h"
#include "runner/store/store.h"

namespace fsdp {

// The instructions for one job, in its submission's folder. They hold all that the job needs,
// because a job has no database.
struct JobPlan {
  SlurmMode mode = SlurmMode::kPerRun;
  std::string cluster{};                    // where it was submitted; empty: unknown
  std::filesystem::path file;               // the experiment's file, absolute
  std::filesystem::path working_directory;  // base of relative paths in --set
  std::string profile = "auto";
  std::vector<std::string> set{};
  int64_t repeats = 0;
  std::vector<std::string> only{};
  std::filesystem::path results;  // absolute
  std::filesystem::path trainer;
  double time_limit_s = 0;  // per run; 0: no limit
  GitState git{};           // of the experiment's file, at submission

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("mode", self.mode);
    visit("cluster", self.cluster);
    visit("file", self.file);
    visit("working_directory", self.working_directory);
    visit("profile", self.profile);
    visit("set", self.set);
    visit("repeats", self.repeats);
    visit("only", self.only);
    visit("results", self.results);
    visit("trainer", self.trainer);
    visit("time_limit_s", self.time_limit_s);
    visit("git_commit", self.git.commit);
    visit("git_dirty", self.git.dirty);
    visit("git_untracked", self.git.untracked);
  }
};

// A run of a job, as known when it was submitted. Its specification is in the run's folder.
struct JobRun {
  RunRecord run;
  std::vector<KnownFile> inputs{};
  std::optional<SearchState> search{};  // that waits for the run's result
  std::optional<bool> begins_anew{};    // as in RunRecord

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("run", self.run);
    visit("inputs", self.inputs);
    visit("search", self.search);
    visit("begins_anew", self.begins_anew);
  }
};

// At most one job works on a submission: the first to claim its folder. A runner that gives a
// submission up claims it too, so a job that starts later does nothing. claim_submission() and
// withdraw_submission() throw std::system_error.

inline constexpr const char* kWithdrawn = "withdrawn";

// Returns who has the claim: this job, another one, or kWithdrawn.
std::string claim_submission(const std::filesystem::path& folder, const std::string& job);
// Returns the job that has the claim. If no job has it, claims the submission for kWithdrawn and
// returns nullopt.
std::optional<std::string> withdraw_submission(const std::filesystem::path& folder);
// Returns the job that has the claim, if any.
std::optional<std::string> job_of_submission(const std::filesystem::path& folder);
// Returns the user who made the submission; this user if the folder is gone.
uid_t submitter_of(const std::filesystem::path& folder);

// Writes job.yaml, experiment.yaml, and run-N.json for the Nth run, which is task N of an array.
// `folder` must exist.
void write_job_plan(const std::filesystem::path& folder, const JobPlan& plan,
                    const std::string& experiment_text, std::span<const JobRun> runs);

// Throws ConfigError if the plan cannot be read.
JobPlan read_job_plan(const std::filesystem::path& folder);

// Loads the experiment as it was at submission. Errors name the user's file.
Experiment load_planned_experiment(const std::filesystem::path& folder, const JobPlan& plan);

// Returns the runs of this process: the one of array task `task`, or all of an allocation. Throws
// ConfigError.
std::vector<JobRun> read_job_runs(const std::filesystem::path& folder, const JobPlan& plan,
                                  int64_t task);

// The smallest request that has room for each run.
SlurmRequest largest_request(std::span<const RunRecord> runs);

// The folders that a container of these runs must see, beside the working directory.
std::vector<std::filesystem::path> folders_of_container(const JobPlan& plan,
                                                        std::span<const RunRecord> runs);

// Returns the section `slurm` that all runs share. Throws ConfigError if they differ.
const SlurmSpec& slurm_of_all(std::span<const RunRecord> runs);

// Chooses the next values of doubled keys in a job, and writes run.json of each.
class DoubledRuns {
 public:
  // `folder` is the submission's folder with the plan `plan`.
  DoubledRuns(const std::filesystem::path& folder, const JobPlan& plan,
              std::span<const JobRun> runs, FileDigests& digests, Progress& progress);

  // Returns the run that follows an ended run, if the job doubles a key.
  std::optional<RunRecord> after(const RunRecord& ended, RunStatus status);

 private:
  struct Series : ValueSearch {
    SearchState state;
  };

  RunRecord run_of(Series& series, int64_t value);
  void write_choice(const RunRecord& run, const RunRecord& ended);

  std::string list_{};  // the name of the runs' list; empty if no key is doubled
  std::filesystem::path folder_;
  std::filesystem::path results_;
  FileDigest digest_;
  Progress& progress_;
  std::map<int64_t, Series> series_{};  // by the id of the awaited run
};

}  // namespace fsdp
