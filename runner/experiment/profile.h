#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/experiment.h"

namespace fsdp {

// Overrides for one kind of hardware.
struct Profile {
  std::string name;
  std::optional<int64_t> gpus{};  // that it requires
  std::optional<double> gpu_memory_gib{};
  Overrides set{};
};

// A profile and the reason for choosing it. `profile` is null if the experiment has none.
struct ProfileChoice {
  const Profile* profile = nullptr;
  std::string reason{};
};

// Returns the resources for the runs of a profile.
using ResourcesOf = std::function<Resources(const Profile&)>;

// Chooses the profile `name`, or with `auto` the first with a met requirement. A named profile is
// taken even if its requirement is not met. Throws ConfigError if there is no such profile or, with
// `auto`, none is met. `place` is the place of the profiles.
ProfileChoice choose_profile(const std::vector<Profile>& profiles, const std::string& name,
                             const ResourcesOf& resources_of, const std::string& place);

// The first profile that requires GPUs, of any kind. Null if none does.
ProfileChoice first_profile_with_gpus(const std::vector<Profile>& profiles);

// Returns a sentence, with both places, for each key of `base` that the profile changes or clears.
// Leaves out keys that `outranked` gives, because neither value counts.
std::vector<std::string> overridden_keys(const Overrides& base, const Profile& profile,
                                         const Overrides& outranked);

// Throws ConfigError if base names a preset of a model and the profile gives single keys of one.
// Both together would be a model that neither names.
void check_preset(const Overrides& base, const Profile& profile);

}  // namespace fsdp
