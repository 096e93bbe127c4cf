#include "contract/spec/spec_draft.h"

#include <algorithm>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_keys.h"

namespace fsdp {
namespace {

void set_value(RunSpec& spec, const DerivedValue& derived, const std::string& text) {
  const YamlOrigin origin{.name = derived.expression.place(), .folder = {}, .has_lines = false};
  const std::string& key = run_spec_keys()[derived.key];
  const YamlEntry entry{YAML::Node(key), YAML::Node(text), key, origin};
  try {
    visit_values(spec, [&](size_t number, auto& member, const Range& range) {
      if (number == derived.key) read_value(member, entry, range);
    });
  } catch (const ConfigError& error) {
    throw ConfigError(derived.expression.place(), key,
                      "'" + derived.expression.text() + "' gives " + text + ": " + error.problem());
  }
}

}  // namespace

void SpecDraft::apply(const Overrides& layer) {
  layer.apply(spec_);
  if (const std::string place = layer.place("model.config");
      !place.empty() && !spec_.model.source.empty()) {
    throw ConfigError(place, "model.config",
                      "excludes 'model.source', which is " + spec_.model.source.string() +
                          "; allowed: one of the two, and for random weights of this form add "
                          "model.source: null");
  }
  std::erase_if(derived_, [&](const DerivedValue* derived) { return layer.changes(derived->key); });
  for (const DerivedValue& derived : layer.derived()) derived_.push_back(&derived);
}

RunSpec SpecDraft::evaluated() const {
  RunSpec spec = spec_;
  for (const DerivedValue* derived : derived_) {
    for (const size_t key : derived->expression.keys()) {
      const auto other = std::ranges::find(derived_, key, &DerivedValue::key);
      if (other == derived_.end()) continue;
      throw ConfigError(derived->expression.place(), run_spec_keys()[derived->key],
                        "'" + derived->expression.text() + "': '" + run_spec_keys()[key] +
                            "' is itself derived, at " + (*other)->expression.place() +
                            "; refer to the keys that it follows from");
    }
    set_value(spec, *derived, derived->expression.result(spec_));
  }
  return spec;
}

}  // namespace fsdp
