#include <algorithm>

#include "contract/text/config_error.h"
#include "runner/experiment/sweep.h"

namespace fsdp {
namespace {

// The values of `entry` as entries of their own: a list's items, or the one value.
std::vector<YamlEntry> values_of(const YamlEntry& entry) {
  return entry.value.IsSequence() ? items_of(entry, "value") : std::vector{entry};
}

}  // namespace

Exclusion::Exclusion(const YamlEntry& entry) : place_(entry.value_place()) {
  require_map(entry, "keys of a run, or point, to a value or a list of values");
  const auto keys = entries(entry.value, entry.origin, "", place_);
  if (keys.empty()) refuse_value(entry, "is empty, and would leave out every run");
  for (const YamlEntry& key : keys) {
    if (key.path != "point") {
      read_key(key);
      continue;
    }
    for (const YamlEntry& name : values_of(key)) {
      points_.emplace(read_text(name), name.value_place());
    }
  }
}

void Exclusion::read_key(const YamlEntry& entry) {
  if (entry.value.IsMap()) {
    for (const YamlEntry& key :
         entries(entry.value, entry.origin, entry.path + '.', entry.value_place())) {
      read_key(key);
    }
    return;
  }
  std::vector<Overrides>& values = keys_.emplace_back();
  for (const YamlEntry& value : values_of(entry)) {
    if (Expression::is_meant(value.value)) {
      refuse_value(value, "'" + value.value.Scalar() + "' is an expression; allowed: a value");
    }
    values.emplace_back().add(value);
  }
}

void Exclusion::check_points(const std::vector<std::string>& names) const {
  for (const auto& [name, place] : points_) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw ConfigError(
        place, "point",
        "'" + name + "' is no point; allowed: " + joined(names) + suggestion(name, names));
  }
}

bool Exclusion::matches(const std::string& point, const RunSpec& spec) const {
  if (!points_.empty() && !points_.contains(point)) return false;
  return std::ranges::all_of(keys_, [&](const std::vector<Overrides>& values) {
    return std::ranges::any_of(values, [&](const Overrides& value) { return value.matches(spec); });
  });
}

}  // namespace fsdp
