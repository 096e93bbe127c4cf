#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/text/config_error.h"
#include "runner/experiment/layers.h"

namespace fsdp {

// One combination of one point, which is run once or several times.
struct Draft {
  RunOrigin origin;
  std::string series;                  // the point's name, the combination's values, a doubled one
  RunSpec spec;                        // resolved, unless there is a problem
  std::optional<ConfigError> problem;  // why it cannot be resolved, with its place

  int64_t repeats() const { return origin.block->repeats.count; }
  const std::optional<DoubledKey>& doubled() const { return origin.block->doubled; }
  // The series, and " #1" and so on where there are several repeats.
  std::string name(int64_t repeat) const;
  std::string name_without_doubled() const;
  std::string place() const;
};

// What a specification may leave open, for runs of one launcher.
struct AutomaticValues {
  DeviceKind device = DeviceKind::kCpu;
  // Runs that ask Slurm for GPUs are on cuda, and those that keep checkpoints resume from them:
  // Slurm may start a job again.
  bool on_cluster = false;

  void fill_in(RunSpec& spec) const;
};

// A key that the block doubles has the value `doubled`;
// absent: the first.
Draft draft_of(const RunOrigin& origin, const Layers& layers, AutomaticValues automatic,
               std::optional<int64_t> doubled = {});

// Drafts of every combination of every point in the order of the file, but for those that their
// block excludes. Throws ConfigError when there are too many, when two runs have one name, and when
// an exclusion matches nothing with any profile.
std::vector<Draft> draft_runs(const ExperimentFile& file, const Layers& layers,
                              AutomaticValues automatic);

// Throws ConfigError when two of the drafts are of one point and have the same specification.
void check_specs_differ(const std::vector<const Draft*>& drafts, const Layers& layers);

}  // namespace fsdp
