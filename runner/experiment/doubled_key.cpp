#include "runner/experiment/doubled_key.h"

#include <algorithm>

#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

const Range kValues = at_least(1);

DoublingRange read_range(const YamlEntry& entry) {
  const std::vector<std::string> allowed = experiment_key_names("sweep.double.KEY");
  require_map(entry, "keys: " + joined(allowed));
  DoublingRange range;
  bool has_from = false;
  for (const YamlEntry& part :
       entries(entry.value, entry.origin, entry.path + '.', entry.value_place())) {
    const std::string& name = part.key.Scalar();
    if (name == "from") {
      read_value(range.from, part, kValues);
      has_from = true;
    } else if (name == "to") {
      read_value(range.to, part, kValues);
    } else if (name == "refine") {
      read_value(range.refine, part, any_value());
    } else {
      refuse_unknown_key(part, allowed, suggestion(name, allowed));
    }
  }
  if (!has_from) refuse_value(entry, "has no `from`; allowed: the value to begin with");
  if (range.to && *range.to < range.from) {
    refuse_value(entry, "ends at " + std::to_string(*range.to) + ", below its `from` " +
                            std::to_string(range.from) + "; allowed: at least that");
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

std::string DoubledKey::suffix(int64_t value) const {
  return ' ' + label + '=' + std::to_string(value);
}

DoubledKey read_doubled_key(const YamlEntry& entry) {
  require_map(entry, "one key, such as batch.size_per_rank: {from: 1}");
  const auto keys = entries(entry.value, entry.origin, entry.path + '.', entry.value_place());
  if (keys.size() != 1)
    refuse_value(entry, "has " + counted(std::ssize(keys), "key") + "; allowed: one");
  const YamlEntry& range = keys.front();
  DoubledKey doubled{.key = range.key.Scalar(),
                     .label = range.key.Scalar().substr(range.key.Scalar().rfind('.') + 1),
                     .place = range.value_place(),
                     .range = read_range(range)};
  for (const char* end : {"from", "to"}) {  // refuses an unknown key and what it cannot be
    if (range.value[end])
      Overrides().add({range.key, range.value[end], range.key.Scalar(), range.origin});
  }
  if (!is_integer_key(doubled.key)) {
    throw ConfigError(range.key_place(), doubled.key,
                      "holds no integer; allowed: a key that does, such as batch.size_per_rank");
  }
  return doubled;
}

}  // namespace fsdp
