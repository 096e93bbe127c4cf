#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "contract/spec/slurm_spec.h"
#include "contract/text/fields.h"
#include "runner/attempt/open_attempt.h"
#include "runner/experiment/experiment.h"
#include "runner/slurm/request.h"
#include "runner/store/store.h"

namespace fsdp {

// What a job is told: all that the planner of the user's runner knew, so that the planner in an
// allocation decides the same. It is a file of the submission's folder, beside the experiment's
// text and a copy of the database without measurements.
struct JobPlan {
  std::string token;  // of the submission
  SlurmMode mode = SlurmMode::kPerRun;
  std::filesystem::path file;               // the experiment's, absolute
  std::filesystem::path working_directory;  // where relative paths of --set start
  std::string profile = "auto";
  std::vector<std::string> set{};
  std::vector<std::string> only{};
  bool rerun = false;
  bool skip_oversized = false;
  std::vector<std::string> expected{};  // "FAMILY=VALUE": where searches of doubled keys begin
  std::filesystem::path results;        // absolute
  std::filesystem::path trainer;
  double time_limit_s = 0;  // of each run; 0: none
  // The folders of the runs to launch, relative to the results. Task N of an array runs the Nth; in
  // an allocation they are what the planner must come to.
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

// Writes what the command `attempt` reads: job.yaml, experiment.yaml, planning.sqlite.
// `folder` is there. To be called when the runs are planned and before they are recorded as queued,
// because the copy of the database says which of them had a result.
void write_job_plan(const std::filesystem::path& folder, const JobPlan& plan,
                    const std::string& experiment_text, const Store& store);

// Throws ConfigError when the plan cannot be read.
JobPlan read_job_plan(const std::filesystem::path& folder);

// The experiment as it was at submission; places in errors name the user's file.
Experiment load_planned_experiment(const std::filesystem::path& folder, const JobPlan& plan);

// Copies the database of the submission's folder to where a Store finds it.
void copy_planning_store(const std::filesystem::path& folder, const std::filesystem::path& results);

// A request in which each of the runs has room.
SlurmRequest largest_request(std::span<const RunToLaunch> runs);

// The folders that a container of any of the runs needs to see beside the results, each once.
std::vector<std::filesystem::path> input_folders_of(std::span<const RunToLaunch> runs);

// The section `slurm` that all of the runs share. Throws ConfigError when they do not.
const SlurmSpec& slurm_of_all(std::span<const RunToLaunch> runs);

}  // namespace fsdp
