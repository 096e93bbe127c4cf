#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/plan_report.h"
#include "runner/plan/planner.h"

namespace fsdp {

// Plans the runs of one experiment. Failures of the trainer are std::runtime_errors.
class ExperimentPlans {
 public:
  // `expansion` outlives this object. `host` is nullopt if Slurm starts the runs on other hosts.
  ExperimentPlans(const Expansion& expansion, std::optional<Host> host, PlanTarget target,
                  const std::filesystem::path& trainer, const std::filesystem::path& results);

  // Plans the run. A row without a plan says why it has none. `suffix` follows the run's name.
  PlannedRow plan(const Run& run, const std::string& suffix = "");
  // Plans the run with these overrides ("path=value"). `suffix` follows the run's name.
  PlannedRow plan_with(const Run& run, const std::vector<std::string>& set,
                       const std::string& suffix);
  // Plans the run with this value of an integer key. `suffix` follows the run's name, unless the
  // sweep doubles the key: then the name contains the value.
  PlannedRow plan_value(const Run& run, const std::string& key, int64_t value,
                        const std::string& suffix);
  // Plans the run with the largest value of `key` that fits, or with 1 if none fits. The row's
  // notes say what limits the value. Throws ConfigError if the memory limit is not known.
  PlannedRow plan_largest(const Run& run, const std::string& key);
  // Plans the largest value that the search for a doubled key is expected to find, else the first.
  PlannedRow plan_expected(const Run& run);

  // Adds a timeline to the row's plan, if it has one.
  void add_timeline(PlannedRow& row);

 private:
  DeviceForRuns device_of(const RunSpec& spec) const;

  const Expansion& expansion_;
  std::optional<Host> host_;
  PlanTarget target_;
  Planner planner_;
};

// Returns the first repeat of each run.
std::vector<Run> first_repeats(const Expansion& expansion);

}  // namespace fsdp
