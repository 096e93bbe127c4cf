// Reads foreign files. Their YAML may have anything, so all of it is checked or counted.
#include "runner/import/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

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

YAML::Node parse(const std::filesystem::path& file, const std::string& name) {
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown)) {
    throw ConfigError(file.string(), "", "is not a file");
  }
  std::string text = read_text_file(file);
  // JSON may be indented with tabs, YAML may not. A string of JSON holds no tab.
  if (file.extension() == ".json") std::ranges::replace(text, '\t', ' ');
  try {
    return YAML::Load(text);
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
  std::error_code unknown;
  for (ForeignWord& word : read.words) {
    const bool is_file = std::filesystem::is_regular_file(file.parent_path() / word.value, unknown);
    if (is_file) word.value = (folder / word.value).string();
  }
  return read;
}

ForeignFile read_launch_line(const std::string& line) {
  ForeignFile read{.name = "--launch", .trainer = &other_trainers().front()};
  std::istringstream stream(line);
  std::vector<std::string> parts{std::istream_iterator<std::string>(stream), {}};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const bool is_option = part.starts_with("--");
    const size_t equals = part.find('=');
    if (!is_option && equals == std::string::npos) continue;  // a program, or its files
    std::string name = part.substr(is_option ? 2 : 0, equals - (is_option ? 2 : 0));
    std::string value = equals == std::string::npos ? "true" : part.substr(equals + 1);
    const bool has_value =
        equals == std::string::npos && i + 1 < parts.size() && !parts[i + 1].starts_with("--");
    if (is_option && has_value) value = parts[++i];
    std::ranges::replace(name, '-', '_');
    read.words.push_back({.name = std::move(name), .value = std::move(value), .place = "--launch"});
  }
  return read;
}

}  // namespace fsdp
