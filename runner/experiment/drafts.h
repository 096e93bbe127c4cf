#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/spec_draft.h"
#include "contract/text/config_error.h"
#include "runner/experiment/experiment_file.h"

namespace fsdp {

// What a run is made from: a point, and one of the combinations that a block of its sweep has.
struct RunOrigin {
  const Point* point;
  const SweepBlock* block;
  const Combination* combination;
};

// What a specification may leave open, for runs of one launcher.
struct AutomaticValues {
  DeviceKind device = DeviceKind::kCpu;
  // Runs that ask Slurm for GPUs are on cuda, and those that keep checkpoints resume from them:
  // Slurm may start a job again.
  bool on_cluster = false;
  bool from_hub_cache = true;  // see ExpandOptions
  bool for_any_gpu = false;    // see ExpandOptions: whatever device a run names
};

// The layers of overrides that make a run's specification, the first to be applied first: base, the
// profile's set, the point, the sweep's values, --set; and
// what takes the place of what they leave open. Refers to the profile.
class Layers {
 public:
  Layers(std::shared_ptr<const ExperimentFile> file, const Profile* profile, Overrides set,
         AutomaticValues automatic)
      : automatic(automatic), file_(std::move(file)), profile_(profile), set_(std::move(set)) {}

  // What the layers give. A key that the block doubles has the value `doubled`; absent: the first.
  SpecDraft spec_draft_of(const RunOrigin& origin, std::optional<int64_t> doubled = {}) const;

  // The specification as the layers give it, not yet resolved. Throws ConfigError with the place of
  // an expression that has no result.
  RunSpec spec_of(const RunOrigin& origin) const { return spec_draft_of(origin).evaluated(); }

  // Where the run's `key`, or the nearest section around it, was given last; else the file.
  std::string place(const RunOrigin& origin, std::string key) const;

  // Where --set gives `key`; empty when it does not.
  std::string place_in_set(std::string_view key) const { return set_.place(key); }

  const AutomaticValues automatic;

 private:
  template <typename Visit>
  void visit(const RunOrigin& origin, std::optional<int64_t> doubled, const Visit& visit) const;

  std::shared_ptr<const ExperimentFile> file_;
  const Profile* profile_;
  Overrides set_;
};

// One combination of one point, which is run once or several times.
struct Draft {
  RunOrigin origin;
  std::string series;  // the point's name, the combination's values, a doubled one
  RunSpec spec;        // resolved, unless there is a problem
  std::optional<ConfigError> problem{};  // why it cannot be resolved, with its place

  int64_t repeats() const { return origin.block->repeats.count; }
  const std::optional<DoubledKey>& doubled() const { return origin.block->doubled; }
  // The series, and " #1" and so on where there are several repeats.
  std::string name(int64_t repeat) const;
  std::string name_without_doubled() const;
  std::string place() const;
};

// A key that the block doubles has the value `doubled`; absent: the first.
Draft draft_of(const RunOrigin& origin, const Layers& layers, std::optional<int64_t> doubled = {});

// Drafts of every combination of every point in the order of the file, but for those that their
// block excludes. Throws ConfigError when there are too many, when two runs have one name, and when
// an exclusion matches nothing with any profile.
std::vector<Draft> draft_runs(const std::shared_ptr<const ExperimentFile>& file,
                              const Layers& layers);

// Throws ConfigError when two of the drafts are of one point and have the same specification.
void check_specs_differ(const std::vector<const Draft*>& drafts, const Layers& layers);

}  // namespace fsdp
