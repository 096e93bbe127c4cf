#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/plan_report.h"
#include "runner/plan/planned_device.h"
#include "runner/plan/planner.h"

namespace fsdp {

// Plans the runs of one experiment. This host need not be able to run them.
class ExperimentPlans {
 public:
  // Throws ConfigError if the experiment has a mistake or the GPU is not known.
  ExperimentPlans(const std::filesystem::path& file, ExpandOptions options, Host host,
                  PlanTarget target, const std::filesystem::path& trainer,
                  const std::filesystem::path& results);

  const std::string& experiment() const { return experiment_.name(); }
  const std::string& profile() const { return expansion_.profile; }
  const std::vector<std::string>& overridden() const { return expansion_.overridden; }
  const std::string& profile_reason() const { return expansion_.profile_reason; }
  // Returns the first repeat of each run.
  std::vector<Run> runs() const;
  int64_t repeats_of(const Run& run) const;

  // Returns the specification with these overrides ("path=value"). nullopt: they are not valid.
  std::optional<RunSpec> spec_with(const Run& run, const std::vector<std::string>& set) const;

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

  // Adds a timeline to the row's plan, if it has one.
  void add_timeline(PlannedRow& row);

 private:
  // Returns the resources that select a profile. A GPU that the user names exists in any number.
  Resources resources() const;
  DeviceForRuns device_of(const RunSpec& spec) const;

  std::optional<Host> host_;  // nullopt: runs start on a cluster
  PlanTarget target_;
  Experiment experiment_;
  Expansion expansion_;
  Planner planner_;
};

}  // namespace fsdp
