#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/import/words.h"

// Translates configurations of other trainers to an experiment. The tables of
// contract/spec/other_trainers/ say what each key means.
namespace fsdp {

struct ImportSources {
  std::vector<std::filesystem::path> files;  // a later file counts, where two give one key
  std::string launch{};                      // the command line that starts the training
  std::optional<int64_t> ranks{};            // instead of what the sources say
  std::string name{};                        // of the experiment; empty: the first file's
};

struct Imported {
  std::deque<ForeignFile> files;  // with those that the files name; the launch line is last
  std::string experiment;         // an experiment's text, with what came of every key in comments
};

// Throws ConfigError if a file cannot be read or is of no known trainer.
Imported import_experiment(const ImportSources& sources);

}  // namespace fsdp
