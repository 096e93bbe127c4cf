#include "runner/experiment/experiment_keys.h"

namespace fsdp {

const std::vector<ExperimentKey>& experiment_keys() {
  static const std::vector<ExperimentKey> kKeys = {
      {"experiment", "text; required", "The experiment's name."},
      {"title", "text", "One line for reports."},
      {"profiles", "a map from names to profiles",
       "What differs between kinds of hardware; --profile auto takes the first whose requirement "
       "is "
       "met."},
      {"profiles.NAME.requires", "a map", "What must be there; absent: nothing."},
      {"profiles.NAME.requires.gpus", "an integer, at least 1", "Number of GPUs."},
      {"profiles.NAME.requires.gpu_memory_gib", "a number, greater than 0",
       "Memory of the smallest GPU."},
      {"profiles.NAME.set", "a map of a run's keys", "Overrides of base."},
      {"base", "a map of a run's keys", "What all runs share."},
      {"points", "a list of maps of a run's keys",
       "The runs to compare, in this order; absent: one point, named as the experiment."},
      {"points.name", "text; required", "The point's name; the point's other keys override base."},
      {"sweep", "a map", "Several runs of each point."},
      {"sweep.product", "a map from dotted keys to lists of values",
       "Every combination of the values; the last key varies fastest."},
  };
  return kKeys;
}

std::vector<std::string> experiment_key_names(std::string_view section) {
  const std::string prefix = section.empty() ? "" : std::string(section) + '.';
  std::vector<std::string> names;
  for (const ExperimentKey& key : experiment_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string_view name = key.path.substr(prefix.size());
    if (name.find('.') == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

}  // namespace fsdp
