#include "contract/spec/run_spec_yaml.h"

#include "base/text/config_error.h"
#include "contract/spec/overrides.h"

namespace fsdp {
namespace {

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

template <Fields Section>
void append_keys(std::vector<std::pair<std::string, std::string>>& keys, const Section& section,
                 const std::string& prefix) {
  Section::visit_fields(section, [&](const char* name, const auto& member, auto&&...) {
    if constexpr (Fields<std::remove_cvref_t<decltype(member)>>) {
      append_keys(keys, member, prefix + name + '.');
    } else {
      keys.emplace_back(prefix + name, yaml_text(member));
    }
  });
}

template <Fields Section>
void append_differences(std::string& out, const Section& section, const Section& default_section,
                        const std::string& prefix) {
  std::vector<const void*> defaults;
  Section::visit_fields(default_section, [&](const char*, const auto& member, auto&&...) {
    defaults.push_back(&member);
  });
  auto default_member = defaults.begin();
  const std::string short_form =
      HasShortForm<Section> ? prefix.substr(0, prefix.size() - 1) : std::string();
  Section::visit_fields(section, [&]<typename T>(const char* name, const T& member, auto&&...) {
    const bool is_short = HasShortForm<Section> && default_member == defaults.begin();
    const T& default_value = *static_cast<const T*>(*default_member++);
    if constexpr (Fields<T>) {
      append_differences(out, member, default_value, prefix + name + '.');
    } else if constexpr (std::same_as<T, AutoOrPath>) {
      if (member.is_auto) out += prefix + name + "=auto\n";
    } else if constexpr (!std::same_as<T, std::filesystem::path>) {
      const std::string key = is_short ? short_form : prefix + name;
      if (member != default_value) out += key + '=' + yaml_text(member) + '\n';
    }
  });
}

}  // namespace

void apply_overrides(RunSpec& spec, const YAML::Node& overrides, const YamlOrigin& origin) {
  Overrides layer;
  layer.add(overrides, origin);
  layer.apply(spec);
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
  std::vector<std::pair<std::string, std::string>> keys;
  append_keys(keys, spec, "");
  return keys;
}

std::string differences_from_default(const RunSpec& spec) {
  static const RunSpec kDefault;
  std::string text;
  append_differences(text, spec, kDefault, "");
  return text;
}

}  // namespace fsdp
