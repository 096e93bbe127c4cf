#include <fmt/format.h>

#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "runner/experiment/experiment_keys.h"
#include "runner/experiment/sweep.h"

namespace fsdp {
namespace {

DoublingRange read_range(const YamlEntry& entry) {
  constexpr const char* kSection = "sweep.double.KEY";
  require_map(entry, "keys: " + joined(experiment_key_names(kSection)));
  const Section keys = read_section(entry, kSection);
  DoublingRange range;
  keys.read("from", range.from, at_least(1));
  keys.read("to", range.to, at_least(1));
  keys.read("refine", range.refine, any_value());
  if (!keys.find("from")) {
    refuse_value(entry, "has no `from`; allowed: the value to begin with");
  }
  if (range.to && *range.to < range.from) {
    refuse_value(entry, fmt::format("ends at {}, below its `from` {}; allowed: at least that",
                                    *range.to, range.from));
  }
  return range;
}

}  // namespace

Overrides DoubledKey::with(int64_t value) const {
  Overrides overrides;
  const YamlOrigin origin{.name = place, .folder = {}, .has_lines = false};
  overrides.add({YAML::Node(key), YAML::Node(std::to_string(value)), key, origin});
  return overrides;
}

std::string DoubledKey::suffix(int64_t value) const { return fmt::format(" {}={}", label, value); }

DoubledKey read_doubled_key(const YamlEntry& entry) {
  require_map(entry, "one key, such as batch.size_per_rank: {from: 1}");
  const auto keys = entries(entry.value, entry.origin, entry.path + '.', entry.value_place());
  if (keys.size() != 1) {
    refuse_value(entry, "has " + counted(std::ssize(keys), "key") + "; allowed: one");
  }
  const YamlEntry& range = keys.front();
  const std::string& key = range.key.Scalar();
  DoubledKey doubled{
      .key = key, .label = label_of(key), .place = range.value_place(), .range = read_range(range)};
  for (const char* end : {"from", "to"}) {  // refuses an unknown key and what it cannot be
    if (range.value[end]) Overrides().add({range.key, range.value[end], key, range.origin});
  }
  if (!is_integer_key(key)) {
    throw ConfigError(range.key_place(), key,
                      "holds no integer; allowed: a key that does, such as batch.size_per_rank");
  }
  return doubled;
}

}  // namespace fsdp
