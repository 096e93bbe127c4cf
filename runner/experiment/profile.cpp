// Chooses a profile: the named one, or the first that the hardware satisfies. Says why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/experiment_file.h"

namespace fsdp {
namespace {

std::string_view who_has(const Resources& resources) {
  switch (resources.source) {
    case ResourceSource::kThisHost:
      return "this host has";
    case ResourceSource::kSlurmRequest:
      return "asks Slurm for";
    case ResourceSource::kPlannedGpu:
      return "the planned GPU has";
  }
  return "";
}

// Returns "a100x4 needs 4 GPUs, this host has 0". Empty if the requirement is met.
std::string shortfall(const Profile& profile, const Resources& resources) {
  const std::string memory =
      resources.gpu_count > 0 ? fmt::format("{:.3g} GiB", resources.gpu_memory_gib) : "none";
  if (profile.gpus && resources.gpu_count < *profile.gpus) {
    return fmt::format("{} needs {}, {} {}", profile.name, counted(*profile.gpus, "GPU"),
                       who_has(resources), resources.gpu_count);
  }
  if (profile.gpu_memory_gib && resources.gpu_memory_gib < *profile.gpu_memory_gib) {
    return fmt::format("{} needs GPUs of {} GiB, {} {}", profile.name,
                       shortest(*profile.gpu_memory_gib), who_has(resources), memory);
  }
  return "";
}

// The reason to take the first profile: "this host has 4 GPUs of 79.2 GiB".
std::string merit(const Profile& profile, const Resources& resources) {
  if (!profile.gpus && !profile.gpu_memory_gib) return "it requires nothing";
  std::string memory;
  if (profile.gpu_memory_gib) {
    memory = std::isfinite(resources.gpu_memory_gib)
                 ? " of " + fmt::format("{:.3g} GiB", resources.gpu_memory_gib)
                 : ", whose memory slurm.gpu_memory_gib does not say";
  }
  return fmt::format("{} {}{}", who_has(resources), counted(resources.gpu_count, "GPU"), memory);
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

// "4 GPUs of 79 GiB", "1 GPU"
std::string requirement(const Profile& profile) {
  return counted(*profile.gpus, "GPU") +
         (profile.gpu_memory_gib ? " of " + shortest(*profile.gpu_memory_gib) + " GiB" : "");
}

ProfileChoice choose_first_with_gpus(const std::vector<Profile>& profiles) {
  const auto first = std::ranges::find_if(
      profiles, [](const Profile& profile) { return profile.gpus.has_value(); });
  if (first == profiles.end()) return {};
  std::vector<std::string> others;
  for (const Profile& profile : profiles) {
    if (&profile != &*first) others.push_back(profile.name);
  }
  return {&*first,
          fmt::format("{}: the first profile that requires GPUs ({}){}", first->name,
                      requirement(*first),
                      others.empty() ? "" : "; --profile NAME takes another: " + joined(others))};
}

constexpr const char* kModelConfig = "model.config";

// Returns the key of the profile that excludes `key`, with its place. Empty if there is none.
std::string exclusion_of(const std::string& key, const Profile& profile) {
  for (const std::string_view excluding : alternatives_to(key)) {
    const std::string place = profile.set.place(excluding);
    if (!place.empty()) return fmt::format("{} ({}), which excludes it", excluding, place);
  }
  return "";
}

std::string sentence(const std::string& key, const std::string& value, const std::string& place,
                     const Profile& profile, const std::string& instead) {
  return fmt::format("base's {}: {} ({}) has no effect: profile {} sets {}", key, value, place,
                     profile.name, instead);
}

}  // namespace

ProfileChoice choose_profile(const ExperimentFile& file, const ExpandOptions& options,
                             const ResourcesOf& resources_of) {
  const std::string& name = options.profile;
  if (name == "auto") {
    if (file.profiles.empty()) return {};
    const ProfileChoice first =
        options.for_any_gpu ? choose_first_with_gpus(file.profiles) : ProfileChoice();
    if (first.profile) return first;
    return choose_first_met(file.profiles, resources_of, file.profiles_place);
  }
  std::vector<std::string> names = {"auto"};
  for (const Profile& profile : file.profiles) {
    names.push_back(profile.name);
    if (profile.name != name) continue;
    const std::string missing = shortfall(profile, resources_of(profile));
    return {&profile,
            name + ": chosen with --profile" + (missing.empty() ? "" : ", although " + missing)};
  }
  throw ConfigError(
      "--profile", name,
      "no such profile in this experiment" + hint_and_allowed(suggestion(name, names), names));
}

std::vector<std::pair<std::string, std::string>> values_of(const Overrides& layer) {
  RunSpec spec;
  layer.apply(spec);
  auto values = keys_and_values(spec);
  for (const DerivedValue& derived : layer.derived()) {
    values[derived.key].second = derived.expression.text();
  }
  return values;
}

std::vector<std::string> overridden_keys(const Overrides& base, const Profile& profile,
                                         const Overrides& outranked) {
  std::vector<std::string> sentences;
  const auto own = values_of(base), instead = values_of(profile.set);
  for (const size_t number : base.given()) {
    if (!profile.set.changes(number) || outranked.changes(number)) continue;
    const auto& [key, value] = own[number];
    const std::string place = profile.set.place(key);
    if (place.empty()) {
      if (const std::string excluding = exclusion_of(key, profile); !excluding.empty()) {
        sentences.push_back(sentence(key, value, base.place(key), profile, excluding));
      }
    } else if (instead[number].second != value) {
      sentences.push_back(sentence(key, value, base.place(key), profile,
                                   fmt::format("{} ({})", instead[number].second, place)));
    }
  }
  if (base.preset().empty() || profile.set.preset() == base.preset()) return sentences;
  std::string instead_of_preset = exclusion_of(kModelConfig, profile);
  if (!profile.set.preset().empty()) {
    instead_of_preset =
        fmt::format("{} ({})", profile.set.preset(), profile.set.place(kModelConfig));
  }
  if (!instead_of_preset.empty()) {
    sentences.push_back(sentence(kModelConfig, base.preset(), base.place(kModelConfig), profile,
                                 instead_of_preset));
  }
  return sentences;
}

void check_preset(const Overrides& base, const Profile& profile) {
  const std::string place = profile.set.place(kModelConfig);
  if (base.preset().empty() || !profile.set.preset().empty() || place.empty()) return;
  throw ConfigError(place, kModelConfig,
                    fmt::format("profile {} gives keys of a model, and base gives the preset {} at "
                                "{}; together they are a model that neither names; remove the "
                                "profile's keys, or give the preset in the profile",
                                profile.name, base.preset(), base.place(kModelConfig)));
}

}  // namespace fsdp
