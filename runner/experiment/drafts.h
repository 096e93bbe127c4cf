#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text/config_error.h"
#include "contract/spec/overrides.h"
#include "runner/experiment/experiment_file.h"

namespace fsdp {

// The origin of a run: a point, and one combination of a block of its sweep.
struct RunOrigin {
  const Point* point;
  const SweepBlock* block;
  const Combination* combination;
};

// One option --set.
struct SetOption {
  std::string text;  // "train.steps=20"
  Overrides overrides;

  // True if it gives a key that is more than how a run is carried out.
  bool changes_results() const;
  bool gives_path() const;
};

// A key of a point, or of a combination of its sweep, that --set outranks.
struct OutrankedKey {
  const SetOption* option;
  std::string key;
  std::string value;  // that has no effect
  std::string place;  // of this value
};

// The layers of overrides that make a run's specification, in order of application: base, the
// profile's set, the point, the sweep's values, --set. `device` is for runs that leave it open.
// `profile` is one of the file's, or null.
class Layers {
 public:
  Layers(std::shared_ptr<const ExperimentFile> file, const Profile* profile, Overrides set,
         DeviceKind device, ExpandOptions options = {}, std::vector<SetOption> set_options = {})
      : device(device),
        options(std::move(options)),
        file_(std::move(file)),
        profile_(profile),
        set_(std::move(set)),
        set_options_(std::move(set_options)) {}

  // Applies the layers. A key that the block doubles gets `doubled`, or else its first value.
  SpecDraft spec_draft_of(const RunOrigin& origin, std::optional<int64_t> doubled = {}) const;

  // Returns the specification of the layers, not yet resolved. Throws ConfigError with the place of
  // an expression that has no result.
  RunSpec spec_of(const RunOrigin& origin) const { return spec_draft_of(origin).evaluated(); }

  // Returns the place where the run's `key`, or the section around it, was given last; else the
  // file.
  std::string place(const RunOrigin& origin, std::string key) const;

  // Returns the keys of the run's point and combination that have another value because of --set.
  std::vector<OutrankedKey> outranked_keys(const RunOrigin& origin) const;

  // Returns the place where --set gives `key`. Empty if --set does not.
  std::string place_in_set(std::string_view key) const { return set_.place(key); }

  const DeviceKind device;
  const ExpandOptions options;

 private:
  template <typename Visit>
  void visit(const RunOrigin& origin, std::optional<int64_t> doubled, const Visit& visit) const;

  std::shared_ptr<const ExperimentFile> file_;
  const Profile* profile_;
  Overrides set_;
  std::vector<SetOption> set_options_;  // of set_, if outranked keys matter
};

// One combination of one point, which is run once or more.
struct Draft {
  RunOrigin origin;
  // The point's name, the combination's values, " [batch.total=8]" if --set outranks one of these,
  // and the doubled value.
  std::string series;
  RunSpec spec;                          // resolved, unless there is a problem
  std::optional<ConfigError> problem{};  // why `spec` cannot be resolved, with the place
  std::vector<OutrankedKey> outranked{};
  int64_t repeats = 1;  // how often it is run
  const std::optional<DoubledKey>& doubled() const { return origin.block->doubled; }
  // The series, with " #1" and so on if there are several repeats.
  std::string name(int64_t repeat) const;
  std::string name_without_doubled() const;
  // The point's name with the combination's values, as the file has them.
  std::string name_in_file() const;
  std::string place() const;
};

// A key that the block doubles gets `doubled`, or else its first value.
Draft draft_of(const RunOrigin& origin, const Layers& layers, std::optional<int64_t> doubled = {});

// Drafts every combination of every point in the order of the file, except those that their block
// excludes. Throws ConfigError if there are too many or none, if two runs have one name, or if an
// exclusion matches nothing with any profile.
std::vector<Draft> draft_runs(const std::shared_ptr<const ExperimentFile>& file,
                              const Layers& layers);

// Throws ConfigError if two drafts of one point have the same specification.
void check_specs_differ(const std::vector<const Draft*>& drafts, const Layers& layers);

}  // namespace fsdp
