// Lists the keys of a specification from its fields. Reads and writes them as YAML.
#include "contract/spec/run_spec_yaml.h"

#include <algorithm>
#include <map>

#include "base/text/config_error.h"
#include "contract/spec/overrides.h"

namespace fsdp {
namespace {

template <typename T>
constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
template <typename T>
constexpr bool is_integer<std::optional<T>> = is_integer<T>;

const RunSpec& default_spec() {
  static const RunSpec kDefault;
  return kDefault;
}

// Makes a key from `member`, its member of default_spec().
template <typename T>
RunSpecKey make_key(const std::string& name, const T& member, const Range& range) {
  // A distance and not a pointer, because the key reads and writes any specification.
  const ptrdiff_t place = place_of_member(default_spec(), member);
  const std::string allowed = allowed_values<T>(range);
  RunSpecKey key{.name = name,
                 .short_name = name,
                 .allowed = allowed,
                 .range = range,
                 .effect = {},
                 .is_integer = is_integer<T>,
                 .is_path = std::same_as<T, std::filesystem::path> || std::same_as<T, AutoOrPath>,
                 .is_nullable = yaml_text(member) == "null",
                 .names = {},
                 .read =
                     [=](RunSpec& spec, const YamlEntry& entry) {
                       read_value(member_at<T>(spec, place), entry, range, allowed);
                     },
                 .yaml = [=](const RunSpec& spec) { return yaml_text(member_at<T>(spec, place)); },
                 .is_equal =
                     [=](const RunSpec& one, const RunSpec& other) {
                       return member_at<T>(one, place) == member_at<T>(other, place);
                     },
                 .copy = [=](const RunSpec& from,
                             RunSpec& to) { member_at<T>(to, place) = member_at<T>(from, place); }};
  if constexpr (NamedEnum<T>) {
    for (const std::string_view value : enum_names(T{})) key.names.push_back(value);
  }
  return key;
}

struct Names {
  std::vector<RunSpecKey> keys;
  std::map<std::string, size_t, std::less<>> numbers;  // by name
  std::map<std::string, std::vector<std::string>, std::less<>> sections;

  // Walks the default specification once. Everything else looks keys up here.
  Names() { collect(default_spec(), "", {}); }

  template <typename Section>
  void collect(const Section& section, const std::string& path,
               std::optional<Effect> effect_of_section) {
    const std::string prefix = path.empty() ? "" : path + ".";
    Section::visit_fields(section, [&]<typename T>(const char* name, const T& member, const char*,
                                                   const auto&... about) {
      sections[path].emplace_back(name);
      const auto own_effect = part_of<Effect>(about...);
      const auto effect = own_effect ? own_effect : effect_of_section;
      if constexpr (Fields<T>) {
        collect(member, prefix + name, effect);
      } else {
        // The first key of such a section may be written as the section.
        const bool is_short = HasShortForm<Section> && sections[path].size() == 1;
        numbers.emplace(prefix + name, keys.size());
        keys.push_back(make_key(prefix + name, member, part_of<Range>(about...).value_or(Range{})));
        keys.back().effect = effect;
        if (is_short) keys.back().short_name = path;
      }
    });
  }
};

const Names& names() {
  static const Names kNames;
  return kNames;
}

template <Fields Section>
void append_yaml(std::string& out, const Section& section, const std::string& indentation) {
  Section::visit_fields(section, [&](const char* name, const auto& member, auto&&...) {
    out += indentation + name + ":";
    if constexpr (Fields<std::remove_cvref_t<decltype(member)>>) {
      out += '\n';
      append_yaml(out, member, indentation + "  ");
    } else {
      out += ' ' + yaml_text(member) + '\n';
    }
  });
}

}  // namespace

const std::vector<RunSpecKey>& run_spec_keys() { return names().keys; }

const RunSpecKey* find_run_spec_key(std::string_view name) {
  const auto found = names().numbers.find(name);
  return found == names().numbers.end() ? nullptr : &names().keys[found->second];
}

const std::vector<std::string>* find_run_spec_section(std::string_view name) {
  const auto found = names().sections.find(name);
  return found == names().sections.end() ? nullptr : &found->second;
}

bool is_integer_key(std::string_view key) {
  const RunSpecKey* found = find_run_spec_key(key);
  return found && found->is_integer;
}

Range range_of_key(std::string_view key) {
  const RunSpecKey* found = find_run_spec_key(key);
  return found ? found->range : Range();
}

void reset_differences(RunSpec& spec, const RunSpec& other) {
  for (const RunSpecKey& key : run_spec_keys()) {
    if (!key.is_equal(spec, other)) key.copy(default_spec(), spec);
  }
}

void reset_effects(RunSpec& spec, Effect most) {
  for (const RunSpecKey& key : run_spec_keys()) {
    if (key.effect && *key.effect <= most) key.copy(default_spec(), spec);
  }
}

RunSpec keys_of_losses(RunSpec spec, const ModelConfig& config) {
  const bool dropout = has_dropout(spec, config);
  spec.batch.total = total_batch(spec);
  reset_effects(spec, dropout ? Effect::kNotLosses : Effect::kLossesWithDropout);
  return spec;
}

bool is_key_of_a_run(std::string_view name) {
  return find_run_spec_key(name) || find_run_spec_section(name);
}

std::string allowed_instead_of(const std::string& path) {
  std::string section = path;
  std::string name;
  do {
    const size_t dot = section.rfind('.');
    name = section.substr(dot == std::string::npos ? 0 : dot + 1);
    section = dot == std::string::npos ? "" : section.substr(0, dot);
  } while (!is_key_of_a_run(section));
  const std::vector<std::string>* allowed = find_run_spec_section(section);
  if (!allowed) return "; '" + section + "' holds a value, not keys";
  std::string hint = suggestion(name, *allowed);
  if (hint.empty()) hint = hint_of_key_with_value(name);
  const std::string key = hint.empty() ? key_meant(name) : "";
  if (!key.empty()) hint = "; did you mean '" + key + "'?";
  return hint_and_allowed(hint, *allowed);
}

std::string key_meant(const std::string& name) {
  if (is_key_of_a_run(name)) return name;
  for (const RunSpecKey& key : run_spec_keys()) {
    if (key.name.ends_with("." + name)) return key.name;
  }
  for (const std::string_view meant : meanings(name)) {
    if (is_key_of_a_run(meant)) return std::string(meant);
  }
  return "";
}

std::string hint_of_key_with_value(const std::string& value) {
  for (const RunSpecKey& key : run_spec_keys()) {
    if (std::ranges::find(key.names, value) == key.names.end()) continue;
    return "; '" + value + "' is a value of '" + key.name + "'";
  }
  return "";
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
      {"schedule.warmup_steps", "schedule.warmup_ratio"},
  };
  return kAlternatives;
}

bool is_at_or_below(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

std::vector<std::string_view> alternatives_to(std::string_view key) {
  std::vector<std::string_view> excluded;
  for (const auto& [one, other] : alternatives()) {
    if (is_at_or_below(key, one)) excluded.push_back(other);
    if (is_at_or_below(key, other)) excluded.push_back(one);
  }
  return excluded;
}

std::string_view taken_instead(const RunSpec& spec, const RunSpecKey& key) {
  if (key.is_nullable) return "";  // it is null then, and counts as absent
  std::string_view taken;
  for (const std::string_view instead : alternatives_to(key.name)) {
    const RunSpecKey* replacement = find_run_spec_key(instead);
    if (replacement && replacement->is_nullable && replacement->is_given(spec)) {
      taken = replacement->name;
    }
  }
  return taken;
}

RunSpec read_run_spec(const std::filesystem::path& file) {
  return run_spec_from_yaml(read_text_file(file),
                            {.name = file.string(), .folder = file.parent_path()});
}

RunSpec run_spec_from_yaml(const std::string& text, const YamlOrigin& origin) {
  Overrides values;
  values.add_complete(parse_yaml(text, origin), origin);
  RunSpec spec;
  values.apply(spec);
  try {
    return resolved(std::move(spec));
  } catch (const ConfigError& error) {
    // resolved() names the key. Only the layer of values knows its place.
    const std::string place = values.place(error.key());
    throw ConfigError(place.empty() ? origin.name : place, error.key(), error.problem());
  }
}

std::string to_yaml(const RunSpec& spec) {
  std::string text;
  append_yaml(text, spec, "");
  return text;
}

std::vector<std::pair<std::string, std::string>> keys_and_values(const RunSpec& spec) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const RunSpecKey& key : run_spec_keys()) values.emplace_back(key.name, key.yaml(spec));
  return values;
}

std::string differences_from_default(const RunSpec& spec) {
  std::string text;
  for (const RunSpecKey& key : run_spec_keys()) {
    if (key.is_equal(spec, default_spec())) continue;
    const std::string value = key.yaml(spec);
    // Paths of inputs are left out: their contents identify a run.
    const bool is_input = key.is_path && value.starts_with('"');
    if (!is_input) text += key.short_name + '=' + value + '\n';
  }
  return text;
}

}  // namespace fsdp
