#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the keys of other trainers mean here: the tables of contract/spec/other_trainers/, whose
// README.md describes them.
namespace fsdp {

extern const char* const kOtherTrainers;  // YAML, a document for each table

// Our dotted keys and their values in YAML. In a value with VALUE, this stands for theirs, and the
// rest is plain text.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Patterns of values by our keys. The pattern ~ is true of a key that is not set.
using Conditions = std::vector<std::pair<std::string, std::vector<std::string>>>;

// What some values of a key mean.
struct ValueMeaning {
  std::vector<std::string> values;  // patterns of which one must match
  Conditions conditions{};
  bool is_translated = true;
  Settings settings{};  // none: it is so already
  std::string note{};   // why it is not translated, or in what the translation differs
};

struct OtherKey {
  std::vector<std::string> names;  // patterns of dotted names
  std::vector<ValueMeaning> meanings{};
  bool names_file = false;          // another file to import
  std::vector<std::string> list{};  // the key of a folder, its default, and a file of entries
  std::string same{};               // our key, if any value stays as it is
  int64_t order = 0;                // keys of included tables come first
};

// Applies when all files have been read.
struct Consequence {
  Conditions conditions;
  Settings settings;
  std::vector<std::string> unset;  // patterns of our keys
  std::string because;             // why keys are lost or changed; empty: nothing differs
};

struct OtherTrainer {
  std::string name;
  std::vector<std::string> marks;
  Settings defaults;
  std::vector<std::pair<std::string, std::string>> values;  // their words and ours
  std::vector<OtherKey> keys{};
  std::vector<std::string> irrelevant;  // patterns
  std::vector<std::string> flags{};     // options of a launch line that have no value
  std::vector<Consequence> consequences{};

  // Null if the table does not have the key.
  const OtherKey* find(const std::string& name) const;
  bool is_irrelevant(const std::string& name) const;
};

// The value as YAML on one line.
std::string flow_text(const YAML::Node& value);

// True if the text matches one of the patterns of fnmatch(3), without regard to case.
bool matches_any(const std::vector<std::string>& patterns, const std::string& text);

// All tables, the special ones first. Throws std::logic_error if one is malformed.
const std::vector<OtherTrainer>& other_trainers();

}  // namespace fsdp
