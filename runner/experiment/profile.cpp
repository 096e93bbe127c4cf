#include "runner/experiment/profile.h"

#include <cmath>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

std::string who_has(const Resources& resources) {
  return resources.are_requested ? "asks Slurm for " : "this host has ";
}

// "a100x4 needs 4 GPUs, this host has 0"; empty when the requirement is met.
std::string shortfall(const Profile& profile, const Resources& resources) {
  const auto& [gpus, gpu_memory_gib] = profile.requirement;
  if (gpus && resources.gpu_count < *gpus) {
    return profile.name + " needs " + counted(*gpus, "GPU") + ", " + who_has(resources) +
           std::to_string(resources.gpu_count);
  }
  if (gpu_memory_gib && resources.gpu_memory_gib < *gpu_memory_gib) {
    return profile.name + " needs GPUs of " + shortest(*gpu_memory_gib) + " GiB, " +
           who_has(resources) +
           (resources.gpu_count > 0 ? shortest(resources.gpu_memory_gib) + " GiB" : "none");
  }
  return "";
}

// Why the first profile is taken: "this host has 4 GPUs of 79.2 GiB".
std::string merit(const Profile& profile, const Resources& resources) {
  const auto& [gpus, gpu_memory_gib] = profile.requirement;
  if (!gpus && !gpu_memory_gib) return "it requires nothing";
  const bool tells_memory = gpu_memory_gib && std::isfinite(resources.gpu_memory_gib);
  return who_has(resources) + counted(resources.gpu_count, "GPU") +
         (tells_memory ? " of " + shortest(resources.gpu_memory_gib) + " GiB" : "");
}

ProfileChoice choose_first_met(const std::vector<Profile>& profiles,
                               const ResourcesOf& resources_of, const std::string& place) {
  std::string shortfalls;
  for (const Profile& profile : profiles) {
    const Resources resources = resources_of(profile);
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
                             const ResourcesOf& resources_of, const std::string& place) {
  if (name == "auto") {
    if (profiles.empty()) return {};
    return choose_first_met(profiles, resources_of, place);
  }
  std::vector<std::string> names = {"auto"};
  for (const Profile& profile : profiles) {
    names.push_back(profile.name);
    if (profile.name != name) continue;
    const std::string missing = shortfall(profile, resources_of(profile));
    return {&profile,
            name + ": chosen with --profile" + (missing.empty() ? "" : ", although " + missing)};
  }
  throw ConfigError(
      "--profile", name,
      "no such profile in this experiment; allowed: " + joined(names) + suggestion(name, names));
}

}  // namespace fsdp
