#include "trainer/contract/overrides.h"

#include <algorithm>
#include <array>
#include <map>

#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

struct Alternatives {
  std::string_view one;
  std::string_view other;
};

constexpr std::array kAlternatives = {
    Alternatives{"batch.total", "batch.gradient_accumulation_steps"},
    Alternatives{"train.steps", "train.epochs"},
    Alternatives{"train.steps", "train.sequences"},
    Alternatives{"train.epochs", "train.sequences"},
    Alternatives{"model.source", "model.config"},
    Alternatives{"strategy.wrap.policy", "strategy.wrap.blocks"},
    Alternatives{"strategy.wrap.policy", "strategy.wrap.min_parameters"},
    Alternatives{"strategy.wrap.blocks", "strategy.wrap.min_parameters"},
    Alternatives{"precision.kind", "precision.parameters"},
    Alternatives{"precision.kind", "precision.reduction"},
    Alternatives{"precision.kind", "precision.buffers"},
    Alternatives{"evaluation.data", "evaluation.fraction"},
};

// Calls visit(number, member, range) for every value below `section`, in the order of the struct.
template <typename Section, typename Visitor>
void visit_values(Section& section, size_t& number, Visitor& visit) {
  std::remove_const_t<Section>::visit_fields(
      section, [&](const char*, auto& member, const char*, const Range& range) {
        if constexpr (Fields<std::remove_cvref_t<decltype(member)>>) {
          visit_values(member, number, visit);
        } else {
          visit(number++, member, range);
        }
      });
}

template <typename Spec, typename Visitor>
void visit_values(Spec& spec, Visitor visit) {
  size_t number = 0;
  visit_values(spec, number, visit);
}

// The names of a RunSpec: of its values by number, and of each section's keys.
struct Names {
  std::vector<std::string> values;
  std::map<std::string, size_t, std::less<>> numbers;
  std::map<std::string, std::vector<std::string>, std::less<>> sections;  // "strategy" -> keys
  std::map<std::string, std::string, std::less<>> short_forms;  // "precision" -> its first key

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

const Names& names() {
  static const Names result = [] {
    Names names;
    names.collect(RunSpec{}, "");
    return names;
  }();
  return result;
}

bool is_at_or_below(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

// Names the deepest section that the path enters, and looks for the wrong name there; failing that,
// anywhere (a `ranks` outside of `strategy`).
[[noreturn]] void refuse_unknown(const YamlEntry& entry) {
  std::string section = entry.path;
  std::string name;
  do {
    const size_t dot = section.rfind('.');
    name = section.substr(dot == std::string::npos ? 0 : dot + 1);
    section = dot == std::string::npos ? "" : section.substr(0, dot);
  } while (!names().sections.contains(section) && !names().numbers.contains(section));
  if (names().numbers.contains(section)) {
    throw ConfigError(entry.key_place(), entry.path,
                      "unknown key; '" + section + "' holds a value, not keys");
  }
  const std::vector<std::string>& allowed = names().sections.find(section)->second;
  if (nearest_name(name, allowed).empty()) {
    for (const std::string& key : names().values) {
      if (key.ends_with("." + name)) {
        refuse_unknown_key(entry, allowed, "; did you mean '" + key + "'?");
      }
    }
  }
  refuse_unknown_key(entry, allowed, suggestion(name, allowed));
}

template <typename T>
constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
template <typename T>
constexpr bool is_integer<std::optional<T>> = is_integer<T>;

template <typename T>
bool is_given(const T& member) {
  if constexpr (is_optional<T>) return member.has_value();
  if constexpr (std::same_as<T, std::filesystem::path>) return !member.empty();
  if constexpr (std::same_as<T, AutoOrPath>) return member.is_given();
  return true;
}

}  // namespace

const std::vector<std::string>& run_spec_keys() { return names().values; }

bool is_integer_key(std::string_view key) {
  const RunSpec defaults;
  bool result = false;
  visit_values(defaults, [&]<typename T>(size_t number, const T&, const Range&) {
    if (names().values[number] == key) result = is_integer<T>;
  });
  return result;
}

void set_to_default(RunSpec& spec, std::string_view key) {
  const RunSpec defaults;
  std::vector<const void*> values;
  visit_values(defaults,
               [&](size_t, const auto& member, const Range&) { values.push_back(&member); });
  visit_values(spec, [&]<typename T>(size_t number, T& member, const Range&) {
    if (names().values[number] == key) member = *static_cast<const T*>(values[number]);
  });
}

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

void Overrides::read_entry(const YamlEntry& entry) {
  if (const auto section = names().sections.find(entry.path); section != names().sections.end()) {
    const auto short_form = names().short_forms.find(entry.path);
    if (short_form != names().short_forms.end() && entry.value.IsScalar()) {
      read_entry({entry.key, entry.value, short_form->second, entry.origin});
      return;
    }
    require_map(entry, "keys: " + joined(section->second));
    read_map(entry.value, entry.origin, entry.path + ".", entry.value_place());
    return;
  }
  const auto key = names().numbers.find(entry.path);
  if (key == names().numbers.end()) refuse_unknown(entry);
  for (const Given& given : given_) {
    if (given.key == key->second) {
      throw ConfigError(entry.key_place(), entry.path,
                        "duplicate key; first given at " + given.place);
    }
  }
  read_value_of(key->second, entry);
}

void Overrides::read_value_of(size_t key, const YamlEntry& entry) {
  bool is_cleared = false;
  visit_values(values_, [&](size_t number, auto& member, const Range& range) {
    if (number != key) return;
    read_value(member, entry, range);
    is_cleared = !is_given(member);
  });
  changed_[key] = true;
  given_.push_back({key, entry.value_place(), is_cleared});
  if (!is_cleared && !is_complete_) settle_alternatives(entry);
}

void Overrides::settle_alternatives(const YamlEntry& entry) {
  for (const auto& [one, other] : kAlternatives) {
    const bool is_one = is_at_or_below(entry.path, one);
    if (!is_one && !is_at_or_below(entry.path, other)) continue;
    const std::string_view excluded = is_one ? other : one;
    for (const Given& given : given_) {
      const std::string& key = names().values[given.key];
      if (given.is_cleared || !is_at_or_below(key, excluded)) continue;
      refuse_value(entry, "excludes '" + key + "', which is given at " + given.place +
                              "; allowed: one of the two");
    }
    for (size_t key = 0; key < changed_.size(); ++key) {
      if (is_at_or_below(names().values[key], excluded)) changed_[key] = true;
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
  return all_equal;
}

std::string Overrides::place(std::string_view key) const {
  for (const Given& given : given_) {
    if (is_at_or_below(names().values[given.key], key)) return given.place;
  }
  return "";
}

}  // namespace fsdp
