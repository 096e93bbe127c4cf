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

// Plans the runs of one experiment, none of which needs to be possible on this host.
class ExperimentPlans {
 public:
  // Throws ConfigError on a mistake in the experiment, and if the GPU is not known.
  ExperimentPlans(const std::filesystem::path& file, ExpandOptions options, Host host,
                  PlanTarget target, const std::filesystem::path& trainer,
                  const std::filesystem::path& results);

  const std::string& experiment() const { return experiment_.name(); }
  const std::string& profile() const { return expansion_.profile; }
  const std::vector<std::string>& overridden() const { return expansion_.overridden; }
  const std::string& profile_reason() const { return expansion_.profile_reason; }
  // The first repeat of each.
  std::vector<Run> runs() const;
  int64_t repeats_of(const Run& run) const;

  // The run's with these overrides ("path=value"); absent: it may not have them.
  std::optional<RunSpec> spec_with(const Run& run, const std::vector<std::string>& set) const;

  // A row without a plan says why it has none.
  PlannedRow plan(const Run& run, const std::string& suffix = "");
  // The run with these overrides ("path=value"); `suffix` stands behind its name.
  PlannedRow plan_with(const Run& run, const std::vector<std::string>& set,
                       const std::string& suffix);
  // The run with this value of an integer key. `suffix` stands behind the run's name, unless the
  // sweep doubles the key: then the name has the value.
  PlannedRow plan_value(const Run& run, const std::string& key, int64_t value,
                        const std::string& suffix);
  // With the largest value of `key` that fits; its notes say what bounds it. Throws ConfigError
  // when no limit is known.
  PlannedRow plan_largest(const Run& run, const std::string& key);

  // To the row's plan, where it has one.
  void add_timeline(PlannedRow& row);

 private:
  // A profile is chosen by the GPU that is planned for; there are as many as it asks for.
  Resources resources() const;
  DeviceForRuns device_of(const RunSpec& spec) const;

  std::optional<Host> host_;  // nullopt: runs start on a cluster
  PlanTarget target_;
  Experiment experiment_;
  Expansion expansion_;
  Planner planner_;
};

}  // namespace fsdp
