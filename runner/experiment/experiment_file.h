#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/experiment.h"
#include "runner/experiment/sweep.h"

namespace fsdp {

// One run to compare, or several with a sweep.
struct Point {
  std::string name;
  std::string place;
  Overrides overrides;
  std::optional<SweepBlocks> sweep{};  // instead of the experiment's
};

// Overrides for one kind of hardware.
struct Profile {
  std::string name;
  std::optional<int64_t> gpus{};  // the number that the profile requires; nullopt: none
  std::optional<double> gpu_memory_gib{};
  Overrides set{};
};

// The contents of an experiment file. Values are checked one by one, and not yet combined to runs.
struct ExperimentFile {
  std::filesystem::path path;
  std::string text;
  std::string name{};
  std::string title{};
  Overrides base{};
  std::vector<Profile> profiles{};
  std::string profiles_place{};
  std::vector<Point> points{};
  SweepBlocks sweep{SweepBlock{}};
  Comparison compare = Comparison::kLoss;

  const SweepBlocks& sweep_of(const Point& point) const {
    return point.sweep ? *point.sweep : sweep;
  }
  // The exclusions of all sweeps.
  std::vector<const Exclusion*> exclusions() const;
};

// Returns the file that a missing `file` means: one of its name, with or without extension, in its
// folder or in experiments/. Empty if there is none.
std::string experiment_meant(const std::filesystem::path& file);

// --- profiles ---

// A profile and the reason for choosing it. `profile` is null if the experiment has none.
struct ProfileChoice {
  const Profile* profile = nullptr;
  std::string reason{};
};

// Returns the resources for the runs of a profile.
using ResourcesOf = std::function<Resources(const Profile&)>;

// Chooses the profile that the options name, even if its requirement is not met. `auto` is the
// first profile with a met requirement. With `for_any_gpu`, it is the first that requires GPUs, if
// there is one. Throws ConfigError if there is no such profile or, with `auto`, no requirement is
// met.
ProfileChoice choose_profile(const ExperimentFile& file, const ExpandOptions& options,
                             const ResourcesOf& resources_of);

// Returns each key and its value in `layer`, by the key's number: an expression as it is written.
std::vector<std::pair<std::string, std::string>> values_of(const Overrides& layer);

// Returns a sentence, with both places, for each key of `base` that the profile changes or clears.
// Leaves out keys that `outranked`, the overrides of --set, changes: neither value counts then.
std::vector<std::string> overridden_keys(const Overrides& base, const Profile& profile,
                                         const Overrides& outranked);

// Throws ConfigError if base names a model's preset and the profile gives single keys of a model.
// Both together would be a model that neither names.
void check_preset(const Overrides& base, const Profile& profile);

}  // namespace fsdp
