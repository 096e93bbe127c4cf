#include "runner/experiment/experiment_keys.h"

namespace fsdp {

const std::vector<ExperimentKey>& experiment_keys() {
  static const std::vector<ExperimentKey> kKeys = {
      {"experiment", "text; required", "The experiment's name."},
      {"title", "text", "One line for reports."},
      {"compare", "loss, throughput; default: loss",
       "What the points are compared by. With throughput, different batches and step counts are "
       "meant so, and reports do not warn of them."},
      {"profiles", "a map from names to profiles",
       "What differs between kinds of hardware; --profile auto takes the first whose requirement "
       "is "
       "met."},
      {"profiles.NAME.requires", "a map", "What must be there; absent: nothing."},
      {"profiles.NAME.requires.gpus", "an integer, at least 1 and at most 100000",
       "Number of GPUs."},
      {"profiles.NAME.requires.gpu_memory_gib", "a number, greater than 0",
       "Memory of the smallest GPU."},
      {"profiles.NAME.set", "a map of a run's keys", "Overrides of base."},
      {"base", "a map of a run's keys", "What all runs share."},
      {"points", "a list of maps of a run's keys",
       "The runs to compare, in this order; absent: one point, named as the experiment."},
      {"points.name", "text; required", "The point's name; the point's other keys override base."},
      {"points.sweep", "as the experiment's sweep, or none",
       "This point's sweep, instead of the experiment's; none: the point runs once."},
      {"sweep", "a map, or a list of maps",
       "Several runs of each point. A list holds blocks, whose runs come one block after another; "
       "a block's product and zip are combined, what is written first outermost."},
      {"sweep.product", "a map from dotted keys to lists of values",
       "Every combination of the values; the last key varies fastest."},
      {"sweep.zip", "a map from dotted keys to lists of values of equal length",
       "The lists advance together: the first values, the second values, and so on."},
      {"sweep.include", "a list of maps from dotted keys to a value",
       "Further combinations, after those of product and zip."},
      {"sweep.exclude",
       "a list of maps from a run's keys, or point, to a value or a list of values",
       "What is left out: combinations whose run has, for every key of one map, one of its values. "
       "Keys are looked up in the complete run, whatever gave them."},
      {"sweep.double", "a map from one key that holds an integer to where it begins and ends",
       "The key's largest value that fits: each combination is run with the first value, then with "
       "twice that, until a run ends out_of_memory. With batch.total, the total is kept and values "
       "that do not divide it are passed over. What has run out of memory is remembered."},
      {"sweep.double.KEY.from", "an integer; required", "The first value."},
      {"sweep.double.KEY.to", "an integer, at least from",
       "The largest value; on the CPU without memory_limit_gib, required."},
      {"sweep.double.KEY.refine", "true, false; default: false",
       "Then run what is between the largest value that fits and the smallest that does not, half "
       "way each time, down to neighbouring values."},
      {"sweep.repeats", "an integer, at least 1, or a map",
       "How many times each combination is run; alone, each point."},
      {"sweep.repeats.count", "an integer, at least 1; required", "How many times."},
      {"sweep.repeats.change_seed", "true, false; default: false",
       "Whether repeat N, counted from 0, has N added to train.seed; false: all have the same "
       "seed, and should have the same losses."},
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
