#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/spec_draft.h"
#include "runner/experiment/experiment_file.h"

namespace fsdp {

// What a run is made from: a point, and one of the combinations that a block of its sweep has.
struct RunOrigin {
  const Point* point;
  const SweepBlock* block;
  const Combination* combination;
};

// The layers of overrides that make a run's specification, the first to be applied first: base, the
// profile's set, the point, the sweep's values, --set. Refers to the file and the profile.
class Layers {
 public:
  Layers(const ExperimentFile& file, const Profile* profile, Overrides set);

  // What the layers give. A key that the block doubles has the value `doubled`; absent: the first.
  SpecDraft spec_draft_of(const RunOrigin& origin, std::optional<int64_t> doubled = {}) const;

  // The specification as the layers give it, not yet resolved. Throws ConfigError with the place of
  // an expression that has no result.
  RunSpec spec_of(const RunOrigin& origin) const { return spec_draft_of(origin).evaluated(); }

  // Where the run's `key`, or the nearest section around it, was given last; else the file.
  std::string place(const RunOrigin& origin, std::string key) const;

  // Where --set gives `key`; empty when it does not.
  std::string place_in_set(std::string_view key) const { return set_.place(key); }

 private:
  std::vector<const Overrides*> below_sweep(const Point& point) const;

  const ExperimentFile& file_;
  const Profile* profile_;
  Overrides set_;
  std::vector<SpecDraft> points_;  // each point before the sweep's values and --set
};

}  // namespace fsdp
