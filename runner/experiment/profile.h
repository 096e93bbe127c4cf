#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/experiment.h"

namespace fsdp {

// What differs on one kind of hardware.
struct Profile {
  std::string name;
  std::optional<int64_t> gpus{};  // that it requires
  std::optional<double> gpu_memory_gib{};
  Overrides set{};
};

// A profile and why it was taken, for the user. `profile` is null when the experiment has none.
struct ProfileChoice {
  const Profile* profile = nullptr;
  std::string reason{};
};

// What there would be for the runs of a profile.
using ResourcesOf = std::function<Resources(const Profile&)>;

// `name` is a profile's, or auto: the first whose requirement is met. A profile named outright is
// taken even when its requirement is not met. Throws ConfigError when there is no such profile or,
// with auto, when none is met; `place` is then where the profiles stand.
ProfileChoice choose_profile(const std::vector<Profile>& profiles, const std::string& name,
                             const ResourcesOf& resources_of, const std::string& place);

// The first profile that requires GPUs, whatever GPU it is; null if none does.
ProfileChoice first_profile_with_gpus(const std::vector<Profile>& profiles);

}  // namespace fsdp
