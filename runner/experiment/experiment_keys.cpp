// Lists the keys of experiment files, for the loader and for `schema`.
#include "runner/experiment/experiment_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

// Every key of an experiment file, for the loader, the reference and the schema.
constexpr ExperimentKey kKeys[] = {
    {"experiment", "text; required", "The experiment's name."},
    {"title", "text", "One line for reports."},
    {"compare", "loss, throughput; default: loss",
     "What the points are compared by. With throughput, batches and step counts may differ, and "
     "reports do not warn about them."},
    {"profiles", "a map from names to profiles",
     "What differs between kinds of hardware; --profile auto takes the first whose requirement "
     "is "
     "met."},
    {"profiles.NAME.requires", "a map",
     "What the host, or the request to Slurm, must have; absent: nothing."},
    {"profiles.NAME.requires.gpus", "an integer, at least 1 and at most 100000", "Number of GPUs."},
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
     "Several runs of each point. A list holds blocks; their runs come one block after another. A "
     "block's product and zip are combined; the one that is written first varies slowest."},
    {"sweep.product", "a map from dotted keys to lists of values",
     "Every combination of the values; the last key varies fastest."},
    {"sweep.zip", "a map from dotted keys to lists of values of equal length",
     "The lists advance together: the first values, the second values, and so on."},
    {"sweep.include", "a list of maps from dotted keys to a value",
     "Further combinations, after those of product and zip."},
    {"sweep.exclude", "a list of maps from a run's keys, or point, to a value or a list of values",
     "Combinations to leave out: those whose run has, for every key of one map, one of the key's "
     "listed values. Keys are looked up in the complete run, wherever their values come from."},
    {"sweep.double", "a map from one key that holds an integer to where it begins and ends",
     "The key's largest value that fits: each combination is run with the first value, then with "
     "twice that, until a run ends out_of_memory. With batch.total, the total is kept and values "
     "that do not divide it are passed over. What has run out of memory is remembered."},
    {"sweep.double.KEY.from", "an integer; required", "The first value."},
    {"sweep.double.KEY.to", "an integer, at least from",
     "The largest value; on the CPU without memory_limit_gib, required."},
    {"sweep.double.KEY.refine", "true, false; default: false",
     "true: then bisect between the largest value that fits and the smallest that does not, down "
     "to neighbouring values."},
    {"sweep.repeats", "an integer, at least 1, or a map",
     "How many times each combination is run; alone, each point."},
    {"sweep.repeats.count", "an integer, at least 1; required", "How many times."},
    {"sweep.repeats.change_seed", "true, false; default: false",
     "true: repeat N, counted from 0, adds N to train.seed; false: all repeats have the same seed, "
     "and should have the same losses."},
};

std::string hint_for_unknown(std::string_view section, const std::string& name,
                             const std::vector<std::string>& allowed) {
  if (section.empty() && is_key_of_a_run(name)) {
    return "; '" + name + "' is a run's key, and stands below 'base'";
  }
  if (section == "sweep" && is_key_of_a_run(name)) return "; its values stand below 'product'";
  if (const std::string hint = suggestion(name, allowed); !hint.empty()) return hint;
  const bool holds_keys = section.empty() || section == "sweep";
  const std::string key = holds_keys ? key_meant(name) : std::string();
  if (key.empty()) return "";
  return fmt::format("; did you mean '{}', below '{}'?", key, section.empty() ? "base" : "product");
}

struct DocumentedKey {
  std::string key;
  std::string text;
};

DocumentedKey documented(const std::string& key, std::string_view type,
                         std::string_view documentation) {
  return {key, fmt::format("  {}: {}\n      {}\n", key, type, documentation)};
}

template <typename Part>
void append_fields(std::vector<DocumentedKey>& out, const Part& part, const std::string& prefix) {
  Part::visit_fields(part, [&](const char* name, const auto& member, const char* documentation,
                               auto&&...) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const std::string key = prefix + name;
    if constexpr (Fields<Member>) {
      out.push_back(documented(
          key, HasShortForm<Member> ? "a map, or in short the value of its first key" : "a map",
          documentation));
      append_fields(out, member, key + '.');
    } else {
      out.push_back(documented(
          key, find_run_spec_key(key)->allowed + "; default: " + yaml_text(member), documentation));
    }
  });
}

std::vector<DocumentedKey> keys_of_file() {
  std::vector<DocumentedKey> keys;
  for (const auto& [path, type, text] : kKeys) {
    keys.push_back(documented(std::string(path), type, text));
  }
  return keys;
}

std::vector<DocumentedKey> keys_of_run() {
  std::vector<DocumentedKey> keys;
  append_fields(keys, RunSpec{}, "");
  return keys;
}

std::string joined_texts(const std::vector<DocumentedKey>& keys) {
  std::string text;
  for (const DocumentedKey& key : keys) text += key.text;
  return text;
}

}  // namespace

std::span<const ExperimentKey> experiment_keys() { return kKeys; }

std::vector<std::string> experiment_key_names(std::string_view section) {
  const std::string prefix = section.empty() ? "" : std::string(section) + '.';
  std::vector<std::string> names;
  for (const ExperimentKey& key : kKeys) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string_view name = key.path.substr(prefix.size());
    if (name.find('.') == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

const YamlEntry* Section::find(std::string_view name) const {
  const auto found =
      std::ranges::find(entries, name, [](const YamlEntry& entry) { return entry.key.Scalar(); });
  return found == entries.end() ? nullptr : &*found;
}

Section read_section(const YamlEntry& entry, std::string_view section, Mistakes* mistakes) {
  const std::string prefix = entry.path.empty() ? "" : entry.path + '.';
  const std::vector<std::string> allowed = experiment_key_names(section);
  Section read{entries(entry.value, entry.origin, prefix, entry.value_place())};
  Mistakes own;
  for (const YamlEntry& key : read.entries) {
    const std::string& name = key.key.Scalar();
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    (mistakes == nullptr ? own : *mistakes).collect([&] {
      refuse_unknown_key(key, allowed, hint_for_unknown(section, name, allowed));
    });
  }
  own.throw_if_any();
  return read;
}

std::string experiment_reference() {
  constexpr const char* kAboutRuns =
      "\nA run's keys, nested or dotted; later ones win: base, the profile's set, the point, the\n"
      "sweep's values, --set. A value may follow from other keys of the run: ${strategy.ranks}, or "
      "a\n"
      "product or quotient of such references and numbers, ${batch.size_per_rank} * 1e-4. In\n"
      "[...] and {...} it stands in quotes.\n\n";
  return "An experiment file\n\n" + joined_texts(keys_of_file()) + kAboutRuns +
         joined_texts(keys_of_run());
}

std::string experiment_reference(const std::string& section) {
  std::string text;
  std::vector<std::string> keys;
  for (const auto& documented_keys : {keys_of_file(), keys_of_run()}) {
    for (const DocumentedKey& each : documented_keys) {
      keys.push_back(each.key);
      if (is_at_or_below(each.key, section)) text += each.text;
    }
  }
  if (!text.empty()) return text;
  throw ConfigError("", section,
                    "no key of an experiment has this name; `fsdp-run schema` lists all keys" +
                        suggestion(section, keys));
}

}  // namespace fsdp
