// Reads one value of YAML at a time. An error names its place, and what is allowed.
#include "contract/spec/yaml_value.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/hub_name.h"
#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

// Returns the candidates that `name` is a synonym of. A candidate may be the last part of a key.
std::vector<std::string> meant_of(std::string_view name,
                                  const std::vector<std::string>& candidates) {
  std::vector<std::string> found;
  for (const std::string_view meant : meanings(name)) {
    const std::string_view last = meant.substr(meant.rfind('.') + 1);
    for (const std::string& candidate : candidates) {
      if (candidate == meant || candidate == last) found.push_back(candidate);
    }
  }
  return found;
}

constexpr size_t kLargestTextFileBytes = 8 << 20;

// Describes a value: "'12abc'", "a list", "a map", "null".
std::string found(const YAML::Node& value) {
  if (value.IsScalar()) return "'" + value.Scalar() + "'";
  if (value.IsSequence()) return "a list";
  return value.IsMap() ? "a map" : "null";
}

[[noreturn]] void refuse_type(const YamlEntry& entry, const std::string& type,
                              const std::string& allowed) {
  const bool quoted = entry.value.IsScalar() && entry.value.Tag() == "!";
  refuse_value(entry, found(entry.value) + (quoted ? " in quotes is text, not " : " is not ") +
                          type + "; allowed: " + allowed);
}

// True for text that can only be one item of a list, and not several without brackets.
bool is_single_word(const YAML::Node& value) {
  return value.IsScalar() && !value.Scalar().empty() &&
         value.Scalar().find_first_of(" \t\r\n,") == std::string::npos;
}

// The text of an unquoted scalar without a leading plus; empty for anything else.
std::string_view number_text(const YAML::Node& value) {
  if (!value.IsScalar() || value.Tag() == "!") return {};
  std::string_view text = value.Scalar();
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

// Reads the value as a name on a hub. nullopt if it is a path.
std::optional<HubName> read_hub_name(const YamlEntry& entry, HubNames names) {
  const std::string& text = entry.value.Scalar();
  const bool may_be_repository = names == HubNames::kModel || names == HubNames::kTokenizer;
  if (!text.starts_with(kHubScheme)) {
    std::error_code unknown;
    const bool is_path = std::filesystem::exists(entry.origin.folder / text, unknown);
    return may_be_repository && !is_path ? bare_hub_name(text) : std::nullopt;
  }
  const auto refuse = [&](const std::string& problem) {
    refuse_value(entry, text + ' ' + problem + "; allowed: " + allowed_paths(names));
  };
  if (names == HubNames::kNone) refuse("names something on a hub");
  try {
    const HubName name = parse_hub_name(text);
    if (name.path.empty() && !may_be_repository) refuse("names a repository, but no file in it");
    if (names == HubNames::kModel && (name.is_dataset || !name.path.empty())) {
      refuse("is no repository of a model");
    }
    return name;
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
    return std::nullopt;
  }
}

}  // namespace

std::string place_of(const YAML::Mark& mark, const YamlOrigin& origin) {
  if (!origin.has_lines || mark.is_null()) return origin.name;
  return origin.name + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

std::string YamlEntry::key_place() const { return place_of(key.Mark(), origin); }

std::string YamlEntry::value_place() const {
  return place_of(value.IsNull() ? key.Mark() : value.Mark(), origin);
}

std::string read_text_file(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  const int open_error = errno;
  std::error_code not_there;
  const bool is_folder = std::filesystem::is_directory(file, not_there);
  if (!stream || is_folder) {
    const int error = is_folder ? EISDIR : open_error;
    throw ConfigError(file.string(), "",
                      "cannot be read: " + std::generic_category().message(error));
  }
  std::string text;
  std::vector<char> block(64 << 10);
  while (stream.read(block.data(), std::ssize(block)) || stream.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(stream.gcount()));
    if (text.size() > kLargestTextFileBytes) {
      throw ConfigError(file.string(), "",
                        "is larger than allowed: at most " +
                            std::to_string(kLargestTextFileBytes >> 20) + " MiB");
    }
  }
  return text;
}

std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  std::vector<std::string> meant = meant_of(name, candidates);
  if (meant.empty()) meant.push_back(nearest_name(name, candidates));
  if (meant.front().empty()) return "";
  std::string text = "; did you mean ";
  for (const std::string& one : meant) {
    text += (&one == &meant.front() ? "'" : " or '") + one + "'";
  }
  return text + '?';
}

std::string hint_and_allowed(const std::string& hint, const std::vector<std::string>& allowed) {
  return hint + (hint.ends_with('?') ? " allowed: " : "; allowed: ") + joined(allowed);
}

std::vector<YamlEntry> entries(const YAML::Node& map, const YamlOrigin& origin,
                               const std::string& prefix, const std::string& place) {
  std::vector<YamlEntry> result;
  if (map.IsNull()) return result;
  if (!map.IsMap()) {
    const std::string key = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
    const bool lacks_space = map.IsScalar() && map.Scalar().find(':') != std::string::npos;
    throw ConfigError(place, key,
                      found(map) + " is not a map; allowed: a map of keys to values" +
                          (lacks_space ? "; a space is missing after its ':'" : ""));
  }
  std::map<std::string, std::string> seen;
  for (const auto& pair : map) {
    const std::string key_place = place_of(pair.first.Mark(), origin);
    if (!pair.first.IsScalar()) {
      throw ConfigError(key_place, "", found(pair.first) + " is not a key; allowed: text");
    }
    YamlEntry entry{pair.first, pair.second, prefix + pair.first.Scalar(), origin};
    const auto [first, inserted] = seen.emplace(entry.path, key_place);
    if (!inserted) {
      throw ConfigError(key_place, entry.path, "duplicate key; first given at " + first->second);
    }
    result.push_back(std::move(entry));
  }
  return result;
}

void require_list(const YamlEntry& entry, const std::string& contents) {
  if (!entry.value.IsSequence()) refuse_type(entry, "a list", "a list of " + contents);
}

void require_map(const YamlEntry& entry, const std::string& contents) {
  if (!entry.value.IsMap()) refuse_type(entry, "a map", "a map of " + contents);
}

void refuse_unknown_key(const YamlEntry& entry, const std::vector<std::string>& allowed,
                        const std::string& hint) {
  throw ConfigError(entry.key_place(), entry.path, "unknown key" + hint_and_allowed(hint, allowed));
}

void refuse_value(const YamlEntry& entry, const std::string& problem) {
  throw ConfigError(entry.value_place(), entry.path, problem);
}

void refuse_name(const YamlEntry& entry, const std::vector<std::string>& names) {
  const std::string text = entry.value.IsScalar() ? entry.value.Scalar() : std::string();
  std::string hint = suggestion(text, names);
  if (hint.empty()) hint = hint_of_key_with_value(text);
  refuse_value(entry,
               found(entry.value) + " is not one of its values" + hint_and_allowed(hint, names));
}

namespace {

// Says how to correct a number that is nearly right: write 1000 for 1e3, leave out the unit of
// 40GB.
std::string remedy_for_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return "";
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest.empty() && value == std::floor(value) && std::fabs(value) < 1e15) {
    return "; write " + std::to_string(static_cast<int64_t>(value));
  }
  const bool is_unit = !rest.empty() && std::ranges::all_of(rest, [](unsigned char c) {
    return std::isalpha(c) || c == '%' || c == ' ' || c == '/';
  });
  return is_unit ? "; write the number without a unit" : "";
}

// `type`, such as "an integer", and `size`, such as "64 bits", are words for error messages.
template <typename T>
T read_arithmetic(const YamlEntry& entry, const char* type, const char* size,
                  const std::string& allowed) {
  const std::string_view text = number_text(entry.value);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument) {
    refuse_type(entry, type, allowed + remedy_for_number(text));
  }
  if (error == std::errc::result_out_of_range) {
    refuse_value(entry, std::string(text) + " does not fit into " + size + "; allowed: " + allowed);
  }
  return value;
}

}  // namespace

int64_t read_integer(const YamlEntry& entry, const std::string& allowed) {
  return read_arithmetic<int64_t>(entry, "an integer", "64 bits", allowed);
}

double read_number(const YamlEntry& entry, const std::string& allowed) {
  const std::string_view text = number_text(entry.value);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits == ".inf" || digits == ".nan") refuse_type(entry, "finite", allowed);
  const auto value = read_arithmetic<double>(entry, "a number", "a double", allowed);
  if (!std::isfinite(value)) refuse_type(entry, "finite", allowed);
  return value;
}

bool read_bool(const YamlEntry& entry) {
  const std::string_view text = number_text(entry.value);
  if (text != "true" && text != "false") refuse_type(entry, "a truth value", "true, false");
  return text == "true";
}

void require_one_line(std::string_view text, const YamlEntry& entry, const std::string& allowed) {
  if (!holds_control_characters(text)) return;
  refuse_value(entry, "holds a line feed or another control character; allowed: " + allowed);
}

std::string read_text(const YamlEntry& entry, const Range& range, const std::string& allowed) {
  if (!entry.value.IsScalar()) refuse_type(entry, "text", allowed);
  std::string_view text = entry.value.Scalar();
  if (!range.form) return std::string(text);
  if (text.starts_with(range.form->dropped_prefix)) {
    text.remove_prefix(range.form->dropped_prefix.size());
  }
  require_one_line(text, entry, allowed);
  const bool is_free = text.empty() && range.form->may_be_empty;
  if (!is_free && !range.form->matches(text)) {
    refuse_value(entry, found(entry.value) + " is not one of its values; allowed: " + allowed);
  }
  return std::string(text);
}

TextList read_text_list(const YamlEntry& entry, const Range& range, const std::string& allowed) {
  if (entry.value.IsNull()) return {};
  if (is_single_word(entry.value)) return {read_text(entry, range, allowed)};
  if (!entry.value.IsSequence()) refuse_type(entry, "a list", allowed);
  TextList list;
  for (const YAML::Node& node : entry.value) {
    const YamlEntry item{entry.key, node, entry.path, entry.origin};
    list.push_back(read_text(item, range, allowed));
    if (list.back().empty()) refuse_value(item, "an item is empty; allowed: " + allowed);
  }
  return list;
}

std::string allowed_paths(HubNames names) {
  switch (names) {
    case HubNames::kNone:
      return "a path, or null";
    case HubNames::kModel:
      return "a path, organization/name[@revision] on a hub, or null";
    case HubNames::kTokenizer:
      return "a path, organization/name[@revision] or hf://organization/name[@revision]/file on a "
             "hub, or null";
    case HubNames::kFile:
      return "a path, hf://[datasets/]organization/name[@revision]/file on a hub, or null";
  }
  throw std::logic_error("HubNames");
}

std::filesystem::path read_path(const YamlEntry& entry, HubNames names) {
  if (!entry.value.IsScalar()) refuse_type(entry, "a path", allowed_paths(names));
  const std::string& text = entry.value.Scalar();
  if (text.empty()) return {};
  if (text.find('\0') != std::string::npos) refuse_value(entry, "a path cannot hold a NUL");
  if (const auto name = read_hub_name(entry, names)) return name->text();
  const auto path = std::filesystem::absolute(entry.origin.folder / text).lexically_normal();
  if (!is_utf8(path.native())) {
    refuse_value(entry,
                 "is not UTF-8 together with the folder that it starts from; allowed: a path in "
                 "UTF-8; rename the file or folder");
  }
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace fsdp
