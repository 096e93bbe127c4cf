#include "runner/experiment/profile.h"

#include "trainer/contract/config_error.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {
namespace {

// "a100x4 needs 4 GPUs, this host has 0"; empty when the requirement is met.
std::string shortfall(const Profile& profile, const Resources& resources) {
  const auto& [gpus, gpu_memory_gib] = profile.requirement;
  if (gpus && resources.gpu_count < *gpus) {
    return profile.name + " needs " + counted(*gpus, "GPU") + ", this host has " +
           std::to_string(resources.gpu_count);
  }
  if (gpu_memory_gib && resources.gpu_memory_gib < *gpu_memory_gib) {
    return profile.name + " needs GPUs of " + shortest(*gpu_memory_gib) + " GiB, this host has " +
           (resources.gpu_count > 0 ? shortest(resources.gpu_memory_gib) + " GiB" : "none");
  }
  return "";
}

// Why the first profile is taken: "this host has 4 GPUs of 79.2 GiB".
std::string merit(const Profile& profile, const Resources& resources) {
  const auto& [gpus, gpu_memory_gib] = profile.requirement;
  if (!gpus && !gpu_memory_gib) return "it requires nothing";
  return "this host has " + counted(resources.gpu_count, "GPU") +
         (gpu_memory_gib ? " of " + shortest(resources.gpu_memory_gib) + " GiB" : "");
}

ProfileChoice choose_first_met(const std::vector<Profile>& profiles, const Resources& resources,
                               const std::string& place) {
  std::string shortfalls;
  for (const Profile& profile : profiles) {
    const std::string missing = shortfall(profile, resources);
    if (missing.empty()) {
      return {&profile,
              profile.name + ": " + (shortfalls.empty() ? merit(profile, resources) : shortfalls)};
    }
    shortfalls += (shortfalls.empty() ? "" : "; ") + missing;
  }
  throw ConfigError(place, "profiles",
                    "none fits: " + shortfalls + "; choose one with --profile NAME, or add one");
}

}  // namespace

ProfileChoice choose_profile(const std::vector<Profile>& profiles, const std::string& name,
                             const Resources& resources, const std::string& place) {
  if (name == "auto") {
    if (profiles.empty()) return {};
    return choose_first_met(profiles, resources, place);
  }
  std::vector<std::string> names = {"auto"};
  for (const Profile& profile : profiles) {
    names.push_back(profile.name);
    if (profile.name != name) continue;
    const std::string missing = shortfall(profile, resources);
    return {&profile,
            name + ": chosen with --profile" + (missing.empty() ? "" : ", although " + missing)};
  }
  throw ConfigError(
      "--profile", name,
      "no such profile in this experiment; allowed: " + joined(names) + suggestion(name, names));
}

}  // namespace fsdp
