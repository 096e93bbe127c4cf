#include "runner/experiment/overridden_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/spec/run_spec_yaml.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

constexpr const char* kModelConfig = "model.config";

std::vector<std::pair<std::string, std::string>> values_of(const Overrides& layer) {
  RunSpec spec;
  layer.apply(spec);
  auto values = keys_and_values(spec);
  for (const DerivedValue& derived : layer.derived()) {
    values[derived.key].second = derived.expression.text();
  }
  return values;
}

// Returns the key of the profile that excludes `key`, with its place. Empty if there is none.
std::string exclusion_of(const std::string& key, const Profile& profile) {
  for (const auto& [one, other] : alternatives()) {
    for (const auto& [section, excluding] : {std::pair(one, other), std::pair(other, one)}) {
      if (!is_at_or_below(key, section)) continue;
      const std::string place = profile.set.place(excluding);
      if (!place.empty()) return fmt::format("{} ({}), which excludes it", excluding, place);
    }
  }
  return "";
}

std::string sentence(const std::string& key, const std::string& value, const std::string& place,
                     const Profile& profile, const std::string& instead) {
  return fmt::format("base's {}: {} ({}) has no effect: profile {} sets {}", key, value, place,
                     profile.name, instead);
}

}  // namespace

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
                                "{}; together they are a model that neither names; take the "
                                "profile's keys away, or give the profile the preset",
                                profile.name, base.preset(), base.place(kModelConfig)));
}

}  // namespace fsdp
