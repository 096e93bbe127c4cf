#include "runner/report/changed_keys.h"

#include <algorithm>
#include <exception>

#include "contract/spec/run_spec_keys.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/report/row_spec.h"

namespace fsdp {
namespace {

// Adds keys and sections whose effect is at most `most`, and those that are paths.
template <Fields Section>
void add_unnamed(std::vector<std::string>& keys, Effect most, const Section& section,
                 const std::string& prefix) {
  Section::visit_fields(section, [&]<typename T>(const char* name, const T& member, const char*,
                                                 const Range&, auto... effect) {
    const bool is_less = ((effect <= most) || ...);
    if (is_less || std::same_as<T, std::filesystem::path>) {
      keys.push_back(prefix + name);
    } else if constexpr (Fields<T>) {
      add_unnamed(keys, most, member, prefix + name + '.');
    }
  });
}

}  // namespace

Keys keys_beyond(Effect least, const ComparisonRow& run) {
  std::vector<std::string> unnamed;
  add_unnamed(unnamed, least, RunSpec{}, "");
  const auto is_named = [&](const std::string& key) {
    return std::ranges::none_of(
        unnamed, [&](const std::string& other) { return is_at_or_below(key, other); });
  };
  if (row_spec(run).is_null()) return {};  // an empty text would be read as the defaults
  try {
    Keys keys;
    const RunSpec spec = run_spec_from_yaml(run.spec, {.name = "a specification", .folder = {}});
    for (const auto& [key, value] : keys_and_values(spec)) {
      if (is_named(key)) keys[key] = value;
    }
    return keys;
  } catch (const std::exception&) {
    return {};
  }
}

Keys changed_keys(const Keys& other, const Keys& own) {
  Keys changed;
  for (const auto& [key, value] : own) {
    const auto before = other.find(key);
    if (before != other.end() && before->second != value) changed[key] = value;
  }
  for (const Alternatives& two : alternatives()) {
    const auto one = changed.find(std::string(two.one));
    const auto another = changed.find(std::string(two.other));
    if (one == changed.end() || another == changed.end()) continue;
    changed.erase(one->second == "null" ? one : another);
  }
  return changed;
}

}  // namespace fsdp
