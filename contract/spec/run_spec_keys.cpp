#include "contract/spec/run_spec_keys.h"

#include <algorithm>

#include "contract/spec/synonyms.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

struct AllNames : RunSpecNames {
  std::vector<std::string> values;

  template <typename Section>
  void collect(const Section& section, const std::string& path) {
    const std::string prefix = path.empty() ? "" : path + ".";
    if constexpr (HasShortForm<Section>) {
      Section::visit_fields(section, [&](const char* name, auto&&...) {
        short_forms.emplace(path, prefix + name);  // the first one stays
      });
    }
    Section::visit_fields(section, [&](const char* name, const auto& member, auto&&...) {
      sections[path].emplace_back(name);
      if constexpr (Fields<std::remove_cvref_t<decltype(member)>>) {
        collect(member, prefix + name);
      } else {
        numbers.emplace(prefix + name, values.size());
        values.push_back(prefix + name);
      }
    });
  }
};

const AllNames& all_names() {
  static const AllNames result = [] {
    AllNames names;
    names.collect(RunSpec{}, "");
    return names;
  }();
  return result;
}

template <typename T>
constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
template <typename T>
constexpr bool is_integer<std::optional<T>> = is_integer<T>;

// For each key, the optional keys that replace it when they are given. An optional key has no value
// then, and needs no such rule.
std::vector<std::vector<size_t>> find_replacements() {
  const RunSpec spec;
  std::vector<bool> nullable;
  visit_values(spec, [&]<typename T>(size_t, const T&, const Range&) {
    nullable.push_back(is_nullable<T>);
  });
  const std::vector<std::string>& keys = run_spec_keys();
  std::vector<std::vector<size_t>> replacements(keys.size());
  const auto add = [&](std::string_view section, std::string_view other) {
    for (size_t key = 0; key < keys.size(); ++key) {
      if (nullable[key] || !is_at_or_below(keys[key], section)) continue;
      for (size_t i = 0; i < keys.size(); ++i) {
        if (nullable[i] && is_at_or_below(keys[i], other)) replacements[key].push_back(i);
      }
    }
  };
  for (const auto& [one, other] : alternatives()) {
    add(one, other);
    add(other, one);
  }
  return replacements;
}

}  // namespace

const std::vector<std::string>& run_spec_keys() { return all_names().values; }

bool is_integer_key(std::string_view key) {
  const RunSpec defaults;
  bool result = false;
  visit_values(defaults, [&]<typename T>(size_t number, const T&, const Range&) {
    if (run_spec_keys()[number] == key) result = is_integer<T>;
  });
  return result;
}

Range range_of_key(std::string_view key) {
  const RunSpec defaults;
  Range result;
  visit_values(defaults, [&](size_t number, const auto&, const Range& range) {
    if (run_spec_keys()[number] == key) result = range;
  });
  return result;
}

void reset_differences(RunSpec& spec, const RunSpec& other) {
  const RunSpec defaults;
  std::vector<const void*> default_values, other_values;
  visit_values(defaults, [&](size_t, const auto& member, const Range&) {
    default_values.push_back(&member);
  });
  visit_values(other,
               [&](size_t, const auto& member, const Range&) { other_values.push_back(&member); });
  visit_values(spec, [&]<typename T>(size_t number, T& member, const Range&) {
    if (member == *static_cast<const T*>(other_values[number])) return;
    member = *static_cast<const T*>(default_values[number]);
  });
}

const RunSpecNames& run_spec_names() { return all_names(); }

bool is_key_of_a_run(std::string_view name) {
  return run_spec_names().numbers.contains(name) || run_spec_names().sections.contains(name);
}

std::string allowed_instead_of(const std::string& path) {
  const RunSpecNames& names = run_spec_names();
  std::string section = path;
  std::string name;
  do {
    const size_t dot = section.rfind('.');
    name = section.substr(dot == std::string::npos ? 0 : dot + 1);
    section = dot == std::string::npos ? "" : section.substr(0, dot);
  } while (!names.sections.contains(section) && !names.numbers.contains(section));
  if (names.numbers.contains(section)) return "; '" + section + "' holds a value, not keys";
  const std::vector<std::string>& allowed = names.sections.find(section)->second;
  const std::string text = "; allowed: " + joined(allowed);
  if (const std::string hint = suggestion(name, allowed); !hint.empty()) return text + hint;
  if (const std::string hint = hint_of_key_with_value(name); !hint.empty()) return text + hint;
  const std::string key = key_meant(name);
  return key.empty() ? text : text + "; did you mean '" + key + "'?";
}

std::string key_meant(const std::string& name) {
  if (is_key_of_a_run(name)) return name;
  for (const std::string& key : run_spec_keys()) {
    if (key.ends_with("." + name)) return key;
  }
  for (const std::string_view meant : meanings(name)) {
    if (is_key_of_a_run(meant)) return std::string(meant);
  }
  return "";
}

std::string hint_of_key_with_value(const std::string& value) {
  const RunSpec defaults;
  std::string hint;
  visit_values(defaults, [&]<typename T>(size_t key, const T&, const Range&) {
    if constexpr (NamedEnum<T>) {
      if (!hint.empty() || !enum_from_name<T>(value)) return;
      hint = "; '" + value + "' is a value of '" + run_spec_keys()[key] + "'";
    }
  });
  return hint;
}

const std::vector<Alternatives>& alternatives() {
  static const std::vector<Alternatives> kAlternatives = {
      {"batch.total", "batch.gradient_accumulation_steps"},
      {"train.steps", "train.epochs"},
      {"train.steps", "train.sequences"},
      {"train.epochs", "train.sequences"},
      {"model.source", "model.config"},
      {"strategy.wrap.policy", "strategy.wrap.blocks"},
      {"strategy.wrap.policy", "strategy.wrap.min_parameters"},
      {"strategy.wrap.blocks", "strategy.wrap.min_parameters"},
      {"precision.kind", "precision.parameters"},
      {"precision.kind", "precision.reduction"},
      {"precision.kind", "precision.buffers"},
      {"evaluation.data", "evaluation.fraction"},
  };
  return kAlternatives;
}

bool is_at_or_below(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

std::string_view taken_instead(const RunSpec& spec, size_t key) {
  static const std::vector<std::vector<size_t>> kReplacements = find_replacements();
  if (kReplacements[key].empty()) return "";
  std::string_view taken;
  visit_values(spec, [&](size_t number, const auto& member, const Range&) {
    const auto& replacements = kReplacements[key];
    const bool is_one =
        std::find(replacements.begin(), replacements.end(), number) != replacements.end();
    if (is_one && is_given(member)) taken = run_spec_keys()[number];
  });
  return taken;
}

}  // namespace fsdp
