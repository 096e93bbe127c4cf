#include "runner/commands/experiment_names.h"

#include <algorithm>
#include <filesystem>

#include "runner/experiment/experiment.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {

std::vector<std::string> experiment_names(const Store& store,
                                          const std::vector<std::string>& words) {
  if (words.empty()) return {};
  std::vector<std::string> recorded;
  for (const ExperimentRecord& experiment : store.experiments()) {
    recorded.push_back(experiment.name);
  }
  std::vector<std::string> names;
  for (const std::string& word : words) {
    const bool is_name = std::ranges::find(recorded, word) != recorded.end();
    const bool is_file = !is_name && std::filesystem::is_regular_file(word);
    const std::string name = is_file ? Experiment::load(word).name() : word;
    if (std::ranges::find(recorded, name) == recorded.end()) {
      throw ConfigError("", word,
                        "is no experiment that was run here; allowed: " + joined(recorded) +
                            ", or their files" + suggestion(name, recorded));
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace fsdp
