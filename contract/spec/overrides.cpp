#include "contract/spec/overrides.h"

#include <algorithm>

#include "base/text/config_error.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

constexpr std::string_view kModelConfig = "model.config";
constexpr std::string_view kPreset = "model.config.preset";

[[noreturn]] void refuse_unknown(const YamlEntry& entry) {
  throw ConfigError(entry.key_place(), entry.path, "unknown key" + allowed_instead_of(entry.path));
}

}  // namespace

void Overrides::add(const YAML::Node& map, const YamlOrigin& origin) {
  read_map(map, origin, "", place_of(map.Mark(), origin));
}

void Overrides::add(const YamlEntry& entry) { read_entry(entry); }

void Overrides::add_complete(const YAML::Node& map, const YamlOrigin& origin) {
  is_complete_ = true;
  add(map, origin);
}

void Overrides::read_map(const YAML::Node& map, const YamlOrigin& origin, const std::string& prefix,
                         const std::string& place) {
  for (const YamlEntry& entry : entries(map, origin, prefix, place)) read_entry(entry);
}

void Overrides::read_preset(const YamlEntry& entry) {
  const Preset* preset = entry.value.IsScalar() ? find_preset(entry.value.Scalar()) : nullptr;
  if (!preset) refuse_name(entry, preset_names());
  preset_ = preset->name;
  RunSpec whole;
  whole.model.config = preset->config;
  std::vector<const void*> members;
  visit_values(whole,
               [&](size_t, const auto& member, const Range&) { members.push_back(&member); });
  visit_values(values_, [&]<typename T>(size_t key, T& member, const Range&) {
    const auto given = std::ranges::find(given_, key, &Given::key);
    if (!is_at_or_below(run_spec_keys()[key], kModelConfig) || given != given_.end()) return;
    member = *static_cast<const T*>(members[key]);
    changed_[key] = true;
    given_.push_back({.key = key, .place = entry.value_place(), .is_of_preset = true});
  });
  if (!is_complete_) settle_alternatives(entry);
}

namespace {

// Refuses `model: NAME` with the name of a preset, of a folder, or of a model on a hub.
void refuse_model_without_key(const YamlEntry& entry) {
  const std::string& name = entry.value.Scalar();
  refuse_value(entry, find_preset(name)
                          ? "'" + name + "' is a preset; write model.config: " + name
                          : "'" + name + "' is not a map; write model.source: " + name +
                                ", or model.config: PRESET; `fsdp-run schema model.config` lists "
                                "the presets");
}

}  // namespace

void Overrides::read_entry(const YamlEntry& entry) {
  const bool is_short = entry.path == kModelConfig && entry.value.IsScalar();
  if (is_short || entry.path == kPreset) return read_preset(entry);
  if (const auto section = run_spec_names().sections.find(entry.path);
      section != run_spec_names().sections.end()) {
    const auto short_form = run_spec_names().short_forms.find(entry.path);
    if (short_form != run_spec_names().short_forms.end() && entry.value.IsScalar()) {
      read_entry({entry.key, entry.value, short_form->second, entry.origin});
      return;
    }
    if (entry.path == "model" && entry.value.IsScalar()) refuse_model_without_key(entry);
    require_map(entry, "keys: " + joined(section->second));
    read_map(entry.value, entry.origin, entry.path + ".", entry.value_place());
    return;
  }
  const auto key = run_spec_names().numbers.find(entry.path);
  if (key == run_spec_names().numbers.end()) refuse_unknown(entry);
  const auto earlier = std::ranges::find(given_, key->second, &Given::key);
  if (earlier != given_.end() && !earlier->is_of_preset) {
    throw ConfigError(entry.key_place(), entry.path,
                      "duplicate key; first given at " + earlier->place);
  }
  if (earlier != given_.end()) given_.erase(earlier);
  read_value_of(key->second, entry);
}

void Overrides::read_value_of(size_t key, const YamlEntry& entry) {
  bool is_cleared = false;
  if (!is_complete_ && Expression::is_meant(entry.value)) {
    derived_.push_back({key, Expression(entry)});
  } else {
    is_cleared = read_plain_value_of(key, entry);
  }
  changed_[key] = true;
  given_.push_back({.key = key, .place = entry.value_place(), .is_cleared = is_cleared});
  if (!is_cleared && !is_complete_) settle_alternatives(entry);
}

bool Overrides::read_plain_value_of(size_t key, const YamlEntry& entry) {
  bool is_cleared = false;
  visit_values(values_, [&](size_t number, auto& member, const Range& range) {
    if (number != key) return;
    read_value(member, entry, range);
    is_cleared = !is_given(member);
  });
  return is_cleared;
}

void Overrides::settle_alternatives(const YamlEntry& entry) {
  for (const auto& [one, other] : alternatives()) {
    const bool is_one = is_at_or_below(entry.path, one);
    if (!is_one && !is_at_or_below(entry.path, other)) continue;
    const std::string_view excluded = is_one ? other : one;
    // model.config does not clear an earlier model.source. SpecDraft refuses the two together.
    const bool clears = excluded != "model.source";
    for (const Given& given : given_) {
      const std::string& key = run_spec_keys()[given.key];
      if (given.is_cleared || !is_at_or_below(key, excluded)) continue;
      refuse_value(entry, "excludes '" + key + "', which is given at " + given.place +
                              "; allowed: one of the two");
    }
    for (size_t key = 0; clears && key < changed_.size(); ++key) {
      if (is_at_or_below(run_spec_keys()[key], excluded)) changed_[key] = true;
    }
  }
}

void Overrides::apply(RunSpec& spec) const {
  if (given_.empty()) return;
  std::vector<const void*> values;
  values.reserve(changed_.size());
  visit_values(values_,
               [&](size_t, const auto& member, const Range&) { values.push_back(&member); });
  visit_values(spec, [&]<typename T>(size_t number, T& member, const Range&) {
    if (changed_[number]) member = *static_cast<const T*>(values[number]);
  });
}

bool Overrides::matches(const RunSpec& spec) const {
  std::vector<const void*> values(given_.size());
  const auto find = [&](size_t number) {
    return std::ranges::find(given_, number, &Given::key) - given_.begin();
  };
  visit_values(values_, [&](size_t number, const auto& member, const Range&) {
    if (const auto at = find(number); at < std::ssize(given_)) values[at] = &member;
  });
  bool all_equal = true;
  visit_values(spec, [&]<typename T>(size_t number, const T& member, const Range&) {
    const auto at = find(number);
    if (at < std::ssize(given_) && member != *static_cast<const T*>(values[at])) all_equal = false;
  });
  return all_equal && std::ranges::all_of(given_, [&](const Given& given) {
           return taken_instead(spec, given.key).empty();
         });
}

std::vector<size_t> Overrides::given() const {
  std::vector<size_t> keys;
  for (const Given& given : given_) {
    if (!given.is_of_preset) keys.push_back(given.key);
  }
  return keys;
}

std::string Overrides::place(std::string_view key) const {
  for (const Given& given : given_) {
    if (is_at_or_below(run_spec_keys()[given.key], key)) return given.place;
  }
  return "";
}

}  // namespace fsdp
