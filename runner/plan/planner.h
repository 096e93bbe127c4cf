#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system/program.h"
#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/plan_report.h"

// Asks the trainer how much memory and time runs need on the devices that they are planned for.
namespace fsdp {

// The hardware that the user names. nullopt: not named; then the rules of ExperimentPlans hold.
struct PlanTarget {
  std::optional<std::string> gpu;
  std::optional<double> host_memory_gib;  // of each node
};

// Returns the resources that select a profile. Any number of the GPU that `target` names is there.
Resources planned_resources(const PlanTarget& target, const std::optional<Host>& host);

// A trainer process that plans the runs of one experiment and trains nothing.
//
// A run is planned for the GPU that the target names, else for this host's smallest. Without
// either, only the GPU's memory is known, from Slurm's options or the profile. A node has the
// memory that the target names, else the memory that the run requests from Slurm. If the run would
// start here, this host's memory counts, or this cgroup's limit if that is less. The ranks of a
// node share its memory. Ranks on the CPU have no other memory.
class ExperimentPlans {
 public:
  // `expansion` must outlive this object. `host` is nullopt if Slurm starts the runs on other
  // hosts. `results` is the folder that may have prepared data. `patience` is the time limit of
  // each answer; a model of 100,000 layers takes a minute. Throws std::system_error if the trainer
  // cannot be started. The process ignores SIGPIPE from then on.
  ExperimentPlans(const Expansion& expansion, std::optional<Host> host, PlanTarget target,
                  const std::filesystem::path& trainer, const std::filesystem::path& results,
                  std::chrono::seconds patience = std::chrono::minutes(5));

  // Returns the trainer's plan. Equal requests are sent once, except long ones. Throws
  // ConfigError if the run cannot be planned, or the target's GPU is not known. Like the functions
  // below, throws std::runtime_error if the trainer has ended or does not answer in time.
  RunPlan plan_spec(const RunSpec& spec, bool timeline = false);
  // Returns what a rank does in a step, no step if the plan is not calibrated, and how its memory
  // changes. Throws as plan_spec().
  RankTrace trace_of(const RunSpec& spec);

  // Plans the run. A row without a plan says why it has none. `suffix` follows the run's name.
  PlannedRow plan(const Run& run, const std::string& suffix = "");
  // Plans the run with these overrides ("path=value"). `suffix` follows the run's name.
  PlannedRow plan_with(const Run& run, const std::vector<std::string>& set,
                       const std::string& suffix);
  // Plans the run with this value of an integer key. `suffix` follows the run's name, unless the
  // sweep doubles the key: then the name contains the value.
  PlannedRow plan_value(const Run& run, const std::string& key, int64_t value,
                        const std::string& suffix);
  // Plans the run with the largest value of `key` that fits, or with 1 if none fits. Plans at most
  // kMostPlannedMicroBatches in a step. The row's notes say what limits the value. Throws
  // ConfigError if the memory limit is not known.
  PlannedRow plan_largest(const Run& run, const std::string& key);
  // Plans the largest value that the search for a doubled key is expected to find, else the first.
  PlannedRow plan_expected(const Run& run);

  // From now on, calls `observer` with the name of each run before it is planned.
  void set_observer(std::function<void(const std::string& point)> observer) {
    observer_ = std::move(observer);
  }

  // Adds a timeline to the row's plan, if it has one.
  void add_timeline(PlannedRow& row);

 private:
  PlanRequest request_for(const RunSpec& spec) const;
  RunPlan answer_to(const PlanRequest& request);

  const Expansion& expansion_;
  std::optional<Host> host_;
  PlanTarget target_;
  std::filesystem::path results_;
  std::chrono::seconds patience_;
  Conversation trainer_;
  std::map<std::string, std::string> answers_;  // by the request
  std::function<void(const std::string& point)> observer_ = [](const std::string&) {};
};

// Predictions for runs that are about to start, on the devices that they will use. Failures are
// only logged. After a failure of the trainer itself, the trainer is not asked again.
class RunPredictions {
 public:
  // `expansion` must outlive this object. `host` is nullopt if Slurm starts the runs on other
  // hosts. The first predict() starts the trainer.
  RunPredictions(const Expansion& expansion, std::optional<Host> host,
                 std::filesystem::path trainer, std::filesystem::path results);

  std::optional<RunPlan> predict(const RunSpec& spec);

 private:
  std::function<std::unique_ptr<ExperimentPlans>()> start_;
  std::unique_ptr<ExperimentPlans> plans_;  // null: not started, or given up
  bool has_given_up_ = false;
};

// Returns the first repeat of each run.
std::vector<Run> first_repeats(const Expansion& expansion);

}  // namespace fsdp
