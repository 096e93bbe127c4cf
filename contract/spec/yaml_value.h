#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "base/text/json.h"

// Reads values of YAML into fields, and writes them. Every error is a ConfigError.
namespace fsdp {

// The origin of YAML, for messages and for relative paths.
struct YamlOrigin {
  std::string name;              // shown before line and column: a file, or an option's text
  std::filesystem::path folder;  // base of relative input paths
  bool has_lines = true;         // false for a command-line option
};

// A key and its value as written. `path` is the key's dotted name from the top of the
// specification.
struct YamlEntry {
  YAML::Node key;
  YAML::Node value;
  std::string path;
  const YamlOrigin& origin;

  std::string key_place() const;
  // The key's place if the value is empty.
  std::string value_place() const;
};

// "lab.yaml:12:5", or the origin's name alone.
std::string place_of(const YAML::Mark& mark, const YamlOrigin& origin);

// Parses one document of YAML as experiments may use it. It must be UTF-8 without control
// characters, and without tabs in the indentation. Tags and merge keys are refused. Anchors and
// aliases are allowed: an alias stands for the value that its anchor marks. Throws ConfigError with
// the place of a mistake, and its remedy.
YAML::Node parse_yaml(const std::string& text, const YamlOrigin& origin);

// Returns the bytes of a file. Throws ConfigError (place: the file) if it cannot be read or is
// larger than 8 MiB.
std::string read_text_file(const std::filesystem::path& file);

// "1 run", "2 runs"
std::string counted(int64_t count, const std::string& noun);

// "a, b, c"
std::string joined(const std::vector<std::string>& names);

// The words that other trainers use for one of our keys or values.
struct Synonyms {
  std::string_view meant;  // a dotted key, or a value
  std::string_view said;   // the words, with spaces between them
};

// All synonyms, for hints in error messages. They are not accepted as input.
const std::vector<Synonyms>& synonyms();

// Returns the keys and values that `said` is a synonym of. Ignores case, and treats dashes as
// underscores.
std::vector<std::string_view> meanings(std::string_view said);

// Returns "; did you mean 'name'?" with the candidates that `name` is a synonym of, or else the
// nearest one. Empty if none is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

// Returns what is allowed, after the hint: "; did you mean 'a'? allowed: a, b", "; allowed: a, b".
std::string hint_and_allowed(const std::string& hint, const std::vector<std::string>& allowed);

// Returns the entries of a map in their order. Each path begins with `prefix` ("strategy.", or
// empty). `place` is the place of the map, for errors. Throws if `map` is not a map (an empty node
// is an empty map), or if a key is not text or comes twice.
std::vector<YamlEntry> entries(const YAML::Node& map, const YamlOrigin& origin,
                               const std::string& prefix, const std::string& place);

// Throws unless `entry.value` is a list, or a map. `contents` describes its items.
void require_list(const YamlEntry& entry, const std::string& contents);
void require_map(const YamlEntry& entry, const std::string& contents);

// `hint` ends the message: a suggestion(), or empty text.
[[noreturn]] void refuse_unknown_key(const YamlEntry& entry,
                                     const std::vector<std::string>& allowed,
                                     const std::string& hint);
[[noreturn]] void refuse_value(const YamlEntry& entry, const std::string& problem);

template <typename T>
std::string description_of_form(const TextForm& form) {
  const std::string description(form.description);
  if constexpr (std::same_as<T, TextList>) return "a list, each item " + description;
  if constexpr (std::same_as<T, std::filesystem::path>) return "a path, or null";
  return form.may_be_empty ? description + R"(, or "")" : description;
}

// Returns "a path, or null", with the forms of hub names that are also allowed.
std::string allowed_paths(HubNames names);

// The values that a field of type T may hold: "an integer, at least 1".
template <typename T>
std::string allowed_values(const Range& range) {
  if (range.form) return description_of_form<T>(*range.form);
  const std::string limits = range.description();
  const std::string suffix = limits.empty() ? "" : ", " + limits;
  if constexpr (is_optional<T>) {
    return allowed_values<typename T::value_type>(range) + ", or null";
  } else if constexpr (std::same_as<T, bool>) {
    return "true, false";
  } else if constexpr (std::integral<T>) {
    return "an integer" + suffix;
  } else if constexpr (std::floating_point<T>) {
    return "a number" + suffix;
  } else if constexpr (NamedEnum<T>) {
    std::vector<std::string> names;
    for (const std::string_view name : enum_names(T{})) names.emplace_back(name);
    return joined(names);
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return allowed_paths(range.hub_names);
  } else if constexpr (std::same_as<T, AutoOrPath>) {
    return "auto, never, a path, or null";
  } else {
    static_assert(std::same_as<T, std::string> || std::same_as<T, TextList>);
    return std::same_as<T, TextList> ? "a list of text" : "text";
  }
}

int64_t read_integer(const YamlEntry& entry, const std::string& allowed);
double read_number(const YamlEntry& entry, const std::string& allowed);
bool read_bool(const YamlEntry& entry);
// Returns text of `range`'s form, if it has one. The text may be empty if the form allows that.
std::string read_text(const YamlEntry& entry, const Range& range = {},
                      const std::string& allowed = "text");
// Null gives an empty list. A single word, without spaces or commas, is a list of one item.
TextList read_text_list(const YamlEntry& entry, const Range& range, const std::string& allowed);
// Returns an absolute and lexically normal path, without a trailing slash. `~` has no special
// meaning. A hub name, where allowed, becomes HubName::text(). organization/name counts as a hub
// name if no such file or folder exists.
std::filesystem::path read_path(const YamlEntry& entry, HubNames names = HubNames::kNone);
void require_one_line(std::string_view text, const YamlEntry& entry, const std::string& allowed);
[[noreturn]] void refuse_name(const YamlEntry& entry, const std::vector<std::string>& names);

// `allowed` ends the message if the value is refused.
template <typename T>
void read_value(T& member, const YamlEntry& entry, const Range& range, const std::string& allowed) {
  if constexpr (is_optional<T>) {
    member.reset();
    if (!entry.value.IsNull()) read_value(member.emplace(), entry, range, allowed);
  } else if constexpr (std::same_as<T, bool>) {
    member = read_bool(entry);
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    if constexpr (std::integral<T>) {
      member = read_integer(entry, allowed);
    } else {
      member = read_number(entry, allowed);
    }
    if (!range.contains(member)) {
      refuse_value(entry, entry.value.Scalar() + " is out of range; allowed: " + allowed);
    }
  } else if constexpr (NamedEnum<T>) {
    const auto value =
        entry.value.IsScalar() ? enum_from_name<T>(entry.value.Scalar()) : std::nullopt;
    if (!value) {
      std::vector<std::string> names;
      for (const std::string_view name : enum_names(T{})) names.emplace_back(name);
      refuse_name(entry, names);
    }
    member = *value;
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    member = entry.value.IsNull() ? std::filesystem::path() : read_path(entry, range.hub_names);
    if (range.form) require_one_line(member.string(), entry, allowed);
  } else if constexpr (std::same_as<T, AutoOrPath>) {
    const std::string word = entry.value.IsScalar() ? entry.value.Scalar() : "";
    member = {.is_auto = word == "auto", .is_never = word == "never", .path = {}};
    if (!member.is_given() && !entry.value.IsNull()) member.path = read_path(entry);
  } else if constexpr (std::same_as<T, TextList>) {
    member = read_text_list(entry, range, allowed);
  } else {
    member = read_text(entry, range, allowed);
  }
}

// Reads a value that a field of type T may hold, within `range`.
template <typename T>
void read_value(T& member, const YamlEntry& entry, const Range& range) {
  read_value(member, entry, range, allowed_values<T>(range));
}

// Writes a value as canonical YAML: floats in the fewest digits, paths and text quoted, null for an
// absent value.
template <typename T>
std::string yaml_text(const T& value) {
  if constexpr (is_optional<T>) {
    return value ? yaml_text(*value) : "null";
  } else if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::integral<T>) {
    return std::to_string(value);
  } else if constexpr (std::floating_point<T>) {
    return shortest(value);
  } else if constexpr (NamedEnum<T>) {
    return std::string(name_of(value));
  } else if constexpr (std::same_as<T, AutoOrPath>) {
    return value.is_auto ? "auto" : value.is_never ? "never" : yaml_text(value.path);
  } else if constexpr (std::same_as<T, TextList>) {
    std::string text = "[";
    for (const std::string& item : value) {
      if (text.size() > 1) text += ", ";
      text += yaml_text(item);
    }
    return text += ']';
  } else {
    std::string text;
    if constexpr (std::same_as<T, std::filesystem::path>) {
      if (value.empty()) return "null";
      append_json_string(text, value.string());  // YAML's double quotes allow all that JSON's do
    } else {
      static_assert(std::same_as<T, std::string>);
      append_json_string(text, value);
    }
    return text;
  }
}

}  // namespace fsdp
