// Reads foreign files. Their YAML may have anything, so all of it is checked or counted.
#include "runner/import/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

constexpr size_t kMostWords = 10'000;  // an alias may stand for a map many times

bool has_meaning(const OtherTrainer& trainer, const std::string& name, const std::string& value) {
  const OtherKey* key = trainer.find(name);
  return key != nullptr && std::ranges::any_of(key->meanings, [&](const ValueMeaning& meaning) {
           return matches_any(meaning.values, value);
         });
}

// Throws unless the values below the node are few. Through an alias, a list may be in itself.
void require_few(const std::string& file, const YAML::Node& node, size_t& count, int depth = 0) {
  constexpr int kMostDepth = 64;
  if (++count > kMostWords || depth > kMostDepth) {
    throw ConfigError(file, "", fmt::format("has more than {} keys, or too deep ones", kMostWords));
  }
  if (!node.IsMap() && !node.IsSequence()) return;
  for (const auto& part : node) {
    require_few(file, node.IsMap() ? part.second : part, count, depth + 1);
    if (node.IsMap()) require_few(file, part.first, count, depth + 1);
  }
}

// A plain word that Python's YAML reads as a truth value becomes `true` or `false`.
std::string value_of(const YAML::Node& scalar) {
  const std::string& text = scalar.Scalar();
  if (scalar.Tag() != "?") return text;
  if (matches_any({"true", "yes", "on"}, text)) return "true";
  return matches_any({"false", "no", "off"}, text) ? "false" : text;
}

class Reader {
 public:
  explicit Reader(ForeignFile& file) : file_(file) {}

  void read(const YAML::Node& node, const std::string& name, const YAML::Mark& mark) {
    if (node.IsMap() && node.size() > 0) {
      for (const auto& entry : node) {
        read(entry.second, prefix(name) + flow_text(entry.first), entry.first.Mark());
      }
    } else if (node.IsSequence() && node.size() > 0 && is_read_by_item(node, name)) {
      for (size_t i = 0; i < node.size(); ++i) {
        read(node[i], prefix(name) + std::to_string(i), node[i].Mark());
      }
    } else {
      add(node, name, mark);
    }
  }

 private:
  static std::string prefix(const std::string& name) { return name.empty() ? "" : name + '.'; }

  // Whole lists are words if the table has them, or if all items are values.
  bool is_read_by_item(const YAML::Node& list, const std::string& name) const {
    const OtherTrainer& trainer = *file_.trainer;
    if (has_meaning(trainer, name, flow_text(list)) || trainer.is_irrelevant(name)) return false;
    const bool has_items =
        std::any_of(list.begin(), list.end(), [](const auto& item) { return !item.IsScalar(); });
    return has_items || trainer.find(name + ".0") != nullptr;
  }

  void add(const YAML::Node& node, const std::string& name, const YAML::Mark& mark) {
    const bool is_empty = node.IsNull() || (!node.IsScalar() && node.size() == 0) ||
                          (node.IsScalar() && node.Scalar().empty());
    file_.words.push_back({.name = name,
                           .value = node.IsScalar() ? value_of(node)
                                    : is_empty      ? ""
                                                    : flow_text(node),
                           .place = fmt::format("{}:{}", file_.name, mark.line + 1),
                           .fate = is_empty ? Fate::kEmpty : Fate::kUntranslated});
  }

  ForeignFile& file_;
};

// JSON may have a character as a pair of surrogates. YAML has an escape of 8 digits for it.
std::string with_whole_characters(const std::string& json) {
  std::string text;
  for (size_t i = 0, length = 0; i < json.size(); i += length) {
    unsigned high = 0, low = 0;
    const bool is_pair =
        json[i] == '\\' &&
        std::sscanf(json.substr(i, 12).c_str(), "\\u%4x\\u%4x", &high, &low) == 2 &&
        high >> 10 == 0xd800 >> 10 && low >> 10 == 0xdc00 >> 10;
    length = is_pair ? 12 : json[i] == '\\' ? 2 : 1;
    text += is_pair ? fmt::format("\\U{:08x}", 0x10000 + (high - 0xd800) * 0x400 + low - 0xdc00)
                    : json.substr(i, length);
  }
  return text;
}

YAML::Node parse(const std::filesystem::path& file, const std::string& name) {
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown)) {
    throw ConfigError(file.string(), "", "is not a file");
  }
  std::string text = read_text_file(file);
  // JSON may be indented with tabs, YAML may not. A string of JSON holds no tab.
  if (file.extension() == ".json") {
    std::ranges::replace(text, '\t', ' ');
    text = with_whole_characters(text);
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      throw ConfigError(name, "",
                        "has several documents with --- between them; allowed: one; write each to "
                        "a file of its own, and name all files");
    }
    return documents.empty() ? YAML::Node() : documents.front();
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}:{}:{}", name, error.mark.line + 1, error.mark.column + 1), "",
                      "is neither YAML nor JSON: " + error.msg);
  }
}

// Null: of no known trainer.
const OtherTrainer* trainer_of(const YAML::Node& map) {
  const auto has = [&](const std::string& mark) {
    const size_t dot = mark.find('.');
    if (dot == std::string::npos) return map[mark].IsDefined();
    const YAML::Node section = map[mark.substr(0, dot)];
    return section && section.IsMap() && section[mark.substr(dot + 1)].IsDefined();
  };
  const auto found = std::ranges::find_if(other_trainers(), [&](const OtherTrainer& trainer) {
    return std::ranges::any_of(trainer.marks, has);
  });
  return found == other_trainers().end() ? nullptr : &*found;
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const OtherTrainer& trainer : other_trainers()) {
    if (trainer.marks.empty()) continue;
    known.push_back(fmt::format("{} ({})", trainer.name, trainer.marks.front()));
  }
  throw ConfigError(name, "",
                    fmt::format("is of no trainer that is known here, because it has none of their "
                                "keys; known, each with such a key: {}",
                                fmt::join(known, ", ")));
}

ForeignFile read_words(const std::string& name, const OtherTrainer& trainer,
                       const YAML::Node& map) {
  ForeignFile file{.name = name, .trainer = &trainer};
  size_t count = 0;
  require_few(name, map, count);
  Reader(file).read(map, "", YAML::Mark());
  return file;
}

// Splits a command line. A quoted part stays together, and loses its quotes.
std::vector<std::string> split_command(const std::string& line) {
  std::vector<std::string> parts(1);
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 ? c == '"' || c == '\'' : c == quote) {
      quote = quote == 0 ? c : '\0';
    } else if (quote == 0 && std::isspace(static_cast<unsigned char>(c))) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (quote != 0) throw ConfigError("--launch", "", "has a quote that does not end; close it");
  std::erase(parts, "");
  return parts;
}

bool is_option(const std::string& part) { return matches_any({"-[a-z]*", "--[a-z]*"}, part); }

}  // namespace

ForeignFile read_foreign_file(const std::filesystem::path& file) {
  const std::string name = visible_line(file.filename().string());
  const YAML::Node map = parse(file, name);
  if (!map.IsMap()) throw ConfigError(name, "", "is no map of keys and values");
  const OtherTrainer* trainer = trainer_of(map);
  if (trainer == nullptr) refuse_unknown(name);
  return read_words(name, *trainer, map);
}

ForeignFile read_foreign_entry(const std::filesystem::path& file, const std::string& entry,
                               const std::filesystem::path& folder) {
  const std::string name = visible_line(file.filename().string());
  const auto table =
      std::ranges::find(other_trainers(), file.filename().string(), &OtherTrainer::name);
  const YAML::Node map = parse(file, name);
  const YAML::Node node = map.IsMap() && map[entry] ? map[entry] : YAML::Node();
  if (!node.IsMap()) {
    throw ConfigError(name, "", "has no entry of this name (several data sets: join their files)");
  }
  ForeignFile read = read_words(name, *table, node);
  for (ForeignWord& word : read.words) {
    if (word.name == "file_name") word.value = (folder / word.value).string();
  }
  return read;
}

ForeignFile read_launch_line(const std::string& line) {
  ForeignFile read{.name = "--launch", .trainer = &other_trainers().front()};
  const std::vector<std::string> parts = split_command(line);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const size_t equals = part.find('=');
    if (!is_option(part) && equals == std::string::npos) continue;  // a program, or its files
    const size_t begin = part.find_first_not_of('-');
    std::string name = part.substr(begin, equals - begin);
    std::ranges::replace(name, '-', '_');
    std::string value = equals == std::string::npos ? "true" : part.substr(equals + 1);
    const bool has_value = equals == std::string::npos && i + 1 < parts.size() &&
                           !is_option(parts[i + 1]) && !matches_any(read.trainer->flags, name);
    if (has_value) value = parts[++i];
    read.words.push_back({.name = std::move(name), .value = std::move(value), .place = "--launch"});
  }
  return read;
}

}  // namespace fsdp
