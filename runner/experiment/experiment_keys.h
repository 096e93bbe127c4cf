#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// A key of an experiment file; the keys of a run's specification are RunSpec's.
struct ExperimentKey {
  std::string_view path;  // dotted; capitals stand for a name of the user's
  std::string_view type;
  std::string_view documentation;
};

// Every key of an experiment file: what the loader knows and what the reference says.
const std::vector<ExperimentKey>& experiment_keys();

// The names of the keys right below `section` ("profiles.NAME"; empty: the top of the file).
std::vector<std::string> experiment_key_names(std::string_view section);

}  // namespace fsdp
