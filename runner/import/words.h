#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/other_trainers.h"

// Reads configurations of other trainers as keys and values.
namespace fsdp {

// The outcome of a key.
enum class Fate { kUntranslated, kTranslated, kSoAlready, kIrrelevant, kEmpty };

// A key of another trainer's file, or of its launch line.
struct ForeignWord {
  std::string name;   // dotted: "datasets.0.path"
  std::string value;  // as in YAML; lists in flow style
  std::string place;  // "qlora.yml:12", "--launch"
  Fate fate = Fate::kUntranslated;
  std::string note{};  // why it is not translated, or in what the translation differs
};

struct ForeignFile {
  std::string name;
  const OtherTrainer* trainer;
  std::vector<ForeignWord> words{};  // in their order

  // True of the launch line. Its table is the first one.
  bool is_launch_line() const { return trainer == &other_trainers().front(); }
};

// Throws ConfigError if the file cannot be read or is no map of YAML or JSON. A file is refused,
// too, if it has none of the keys that mark a trainer's files.
ForeignFile read_foreign_file(const std::filesystem::path& file);

// Reads one entry of a file of entries. The table with the file's name is about its keys. The value
// of file_name gets `folder` before it. Throws ConfigError.
ForeignFile read_foreign_entry(const std::filesystem::path& file, const std::string& entry,
                               const std::filesystem::path& folder);

// Reads the words --key value, -key value, --key=value, key=value and NAME=value. Throws
// ConfigError if a quote does not end.
ForeignFile read_launch_line(const std::string& line);

}  // namespace fsdp
