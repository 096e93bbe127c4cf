// Expands an experiment into runs: profile, drafts, repeats, --only.
#include "runner/experiment/experiment.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>
#include <unordered_set>

#include "base/text/config_error.h"
#include "base/text/white_space.h"
#include "formats/inputs/hub_inputs.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/drafts.h"

namespace fsdp {
namespace {

Overrides read_set_options(const std::vector<std::string>& options) {
  Overrides overrides;
  Mistakes mistakes;
  const auto add = [&](const std::string& option) {
    const YamlOrigin origin{
        .name = "--set " + option, .folder = std::filesystem::current_path(), .has_lines = false};
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(origin.name, "", "is not path=value, such as strategy.ranks=2");
    }
    const std::string key = option.substr(0, equals);
    overrides.add({YAML::Node(key), parse_yaml(option.substr(equals + 1), origin), key, origin});
  };
  for (const std::string& option : options) mistakes.collect([&] { add(option); });
  mistakes.throw_if_any();
  return overrides;
}

std::vector<SetOption> each_option(const std::vector<std::string>& options) {
  std::vector<SetOption> each;
  for (const std::string& option : options) each.push_back({option, read_set_options({option})});
  return each;
}

using Names = std::unordered_set<std::string>;

// Returns the names by which --only may choose a run: its own, its point's, and its series' with or
// without the doubled value.
std::vector<std::string> names_of(const Draft& draft, int64_t repeat) {
  return {draft.series, draft.name_without_doubled(), draft.name(repeat), draft.name_in_file(),
          draft.origin.point->name};
}

// An empty `only` chooses all runs.
bool is_chosen(const Draft& draft, int64_t repeat, const Names& only) {
  const auto is_named = [&](const std::string& name) { return only.contains(name); };
  return only.empty() || std::ranges::any_of(names_of(draft, repeat), is_named);
}

// Splits "A, B" into "A" and "B".
std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.emplace_back(stripped(word));
  std::erase(words, "");
  return words;
}

// Returns the names that --only selects by names, patterns (fnmatch), or lists of both. A name may
// hold a comma. Throws ConfigError if nothing matches.
Names selected_names(const std::vector<std::string>& only, const std::vector<Draft>& drafts) {
  std::vector<std::string> points, all;
  for (const Draft& draft : drafts) {
    const std::string& point = draft.origin.point->name;
    if (points.empty() || points.back() != point) points.push_back(point);
    for (int64_t repeat = 0; repeat < draft.repeats; ++repeat) {
      std::ranges::move(names_of(draft, repeat), std::back_inserter(all));
    }
  }
  all.insert(all.begin(), points.begin(), points.end());
  Names names;
  const auto takes = [&](const std::string& word) {
    const bool is_name = std::ranges::find(all, word) != all.end();
    bool is_known = false;
    for (const std::string& name : all) {
      if (is_name ? name != word : fnmatch(word.c_str(), name.c_str(), 0) != 0) continue;
      names.insert(name);
      is_known = true;
    }
    return is_known;
  };
  for (const std::string& given : only) {
    if (takes(given)) continue;
    std::vector<std::string> words = words_of_list(given);
    if (words.size() < 2) words = {given};
    for (const std::string& word : words) {
      if (takes(word)) continue;
      throw ConfigError("--only", word,
                        "no point has this name" + hint_and_allowed(suggestion(word, all), points));
    }
  }
  return names;
}

void check_doubled_key(const Draft& draft, const Layers& layers) {
  const DoubledKey& doubled = *draft.doubled();
  const std::string set = layers.place_in_set(doubled.key);
  // A value in --set would apply to every run, whatever value its name gives.
  if (!set.empty() || !doubled.with(doubled.range.from).matches(layers.spec_of(draft.origin))) {
    throw ConfigError(
        set.empty() ? "--set" : set, doubled.key,
        "overrides what the sweep doubles at " + doubled.place + "; leave one of the two out");
  }
  if (draft.spec.device == DeviceKind::kCpu && draft.spec.memory_limit_gib == 0 &&
      !doubled.range.to) {
    throw ConfigError(doubled.place, doubled.key,
                      "is doubled until a run is out of memory; on the CPU, this would fill this "
                      "machine's memory; give `to`, or memory_limit_gib");
  }
}

// Throws the problems of the chosen drafts. Drafts that are left out may be wrong.
void check_chosen(const std::vector<Draft>& drafts, const Names& only, const Layers& layers) {
  std::vector<const Draft*> chosen;
  Mistakes mistakes;
  for (const Draft& draft : drafts) {
    int64_t repeat = 0;
    while (repeat < draft.repeats && !is_chosen(draft, repeat, only)) ++repeat;
    if (repeat == draft.repeats) continue;
    mistakes.collect([&] {
      if (draft.problem) throw *draft.problem;
      if (draft.doubled()) check_doubled_key(draft, layers);
    });
    chosen.push_back(&draft);
  }
  mistakes.throw_if_any();
  check_specs_differ(chosen, layers);
}

// The resources that a section `slurm` requests. GPUs of unknown memory count as large enough.
Resources requested(const SlurmSpec& slurm) {
  return {.gpu_count = slurm.nodes * slurm.gpus_per_node,
          .gpu_memory_gib = slurm.gpu_memory_gib.value_or(std::numeric_limits<double>::infinity()),
          .cpu_cores = slurm.cpus_per_task,
          .source = ResourceSource::kSlurmRequest};
}

// The resources that base, the profile and --set request from Slurm.
Resources requested_by(const Profile& profile, const ExperimentFile& file, const Overrides& set) {
  SpecDraft draft;
  for (const Overrides* layer : {&file.base, &profile.set, &set}) draft.apply(*layer);
  try {
    return requested(draft.evaluated().slurm);
  } catch (const ConfigError&) {  // an expression over a point's keys
    return requested(draft.plain().slurm);
  }
}

// The remedy for more ranks than GPUs.
std::string remedy_for_ranks(const Resources& resources, const SlurmSpec& slurm) {
  if (resources.source == ResourceSource::kSlurmRequest) {
    return fmt::format(
        "slurm.nodes {} x slurm.gpus_per_node {} ask for {}; raise one of these, or set device: "
        "cpu",
        slurm.nodes, slurm.gpus_per_node, resources.gpu_count);
  }
  if (resources.gpu_count == 0) {
    return "there are none; allowed: device: cpu, or a plan without GPUs: fsdp-run plan FILE --gpu "
           "NAME";
  }
  return fmt::format("there are {0}; allowed: at most {0}, or device: cpu", resources.gpu_count);
}

void check_ranks(const Run& run, const Resources& resources, const Layers& layers,
                 const RunOrigin& origin) {
  const int64_t ranks = run.spec.strategy.ranks;
  if (run.spec.device != DeviceKind::kCuda || ranks <= resources.gpu_count) return;
  throw ConfigError(layers.place(origin, "strategy.ranks"), "strategy.ranks",
                    fmt::format("{} {} {}, but {} (in '{}')", counted(ranks, "rank"),
                                ranks == 1 ? "needs" : "need", counted(ranks, "GPU"),
                                remedy_for_ranks(resources, run.spec.slurm), run.series));
}

Run run_of(Draft draft, int64_t repeat, int64_t position, const Layers& layers) {
  std::string name = draft.name(repeat);
  if (layers.options.from_hub_cache) take_from_cache(draft.spec);
  Run run{std::move(name), std::move(draft.series), repeat, std::move(draft.spec), position};
  if (!draft.origin.block->repeats.change_seed) return run;
  int64_t& seed = run.spec.train.seed;
  if (seed > kLargestSeed - repeat) {
    throw ConfigError(layers.place(draft.origin, "train.seed"), "train.seed",
                      fmt::format("{} is too large to add the repeat's number to it", seed));
  }
  seed += repeat;
  return run;
}

// The largest value of a doubled key that a total batch allows. nullopt: it sets no bound.
std::optional<int64_t> last_value(const std::string& key, const RunSpec& given) {
  if (key != "batch.size_per_rank" || !given.batch.total) return std::nullopt;
  return *given.batch.total / given.strategy.ranks;
}

// Returns the series that begins with `first`. `check` throws ConfigError for a run that cannot be
// launched.
std::shared_ptr<const DoublingSeries> series_of(const Run& first, const RunOrigin& origin,
                                                std::shared_ptr<const Layers> layers,
                                                std::function<void(const Run&)> check) {
  const DoubledKey& key = *origin.block->doubled;
  const auto last = last_value(key.key, layers->spec_of(origin));
  const auto make = [=, repeat = first.repeat, position = first.position](int64_t value) {
    Draft draft = draft_of(origin, *layers, value);
    if (draft.problem) throw *draft.problem;
    Run run = run_of(std::move(draft), repeat, position, *layers);
    check(run);
    return run;
  };
  return std::make_shared<DoublingSeries>(key, last, make);
}

// Returns a sentence for each option of --set that outranks keys of points, with all values.
std::vector<std::string> outranked_sentences(const std::vector<Draft>& drafts) {
  constexpr size_t kMostNamed = 3;
  std::map<std::string, std::vector<std::string>> values;  // by the option's text
  for (const Draft& draft : drafts) {
    for (const OutrankedKey& key : draft.outranked) {
      std::vector<std::string>& own = values[key.option->text];
      std::string value = fmt::format("{}: {} of '{}' ({})", key.key, key.value,
                                      draft.origin.point->name, key.place);
      if (std::ranges::find(own, value) == own.end()) own.push_back(std::move(value));
    }
  }
  std::vector<std::string> sentences;
  for (auto& [text, own] : values) {
    const size_t more = own.size() - std::min(own.size(), kMostNamed);
    own.resize(own.size() - more);
    sentences.push_back(fmt::format("--set {} outranks {}{}", text, fmt::join(own, ", "),
                                    more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return sentences;
}

// Returns the texts of the options that change results, sorted; none if `drafts` are what the file
// has without them.
std::vector<std::string> overrides_of_list(const std::shared_ptr<const ExperimentFile>& file,
                                           const std::vector<SetOption>& options,
                                           const std::vector<Draft>& drafts, const Layers& plain) {
  std::vector<std::string> texts;
  bool gives_path = false;
  for (const SetOption& option : options) {
    if (!option.changes_results()) continue;
    texts.push_back(option.text);
    gives_path |= option.gives_path();
  }
  const int64_t repeats = plain.options.repeats;
  const auto has_as_many = [&](const Draft& draft) {
    return draft.origin.block->repeats.count == repeats;
  };
  const bool changes_repeats = repeats > 0 && !std::ranges::all_of(drafts, has_as_many);
  if (changes_repeats) texts.push_back(fmt::format("repeats={}", repeats));
  std::ranges::sort(texts);
  if (texts.empty() || gives_path || changes_repeats) return texts;
  try {
    const auto has_same_identity = [](const Draft& one, const Draft& other) {
      return !one.problem && !other.problem && one.series == other.series &&
             identity_keys(one.spec) == identity_keys(other.spec);
    };
    if (std::ranges::equal(drafts, draft_runs(file, plain), has_same_identity)) texts.clear();
  } catch (const ConfigError&) {  // the file needs these options
  }
  return texts;
}

// Returns cuda if there are GPUs or the profile requires them.
DeviceKind automatic_device(const Profile* profile, const Resources& host, bool on_cluster) {
  const bool wants_gpus = profile && profile->gpus;
  const bool has_gpus = !on_cluster && host.gpu_count > 0;
  return has_gpus || wants_gpus ? DeviceKind::kCuda : DeviceKind::kCpu;
}

}  // namespace

Expansion Experiment::expand(const ExpandOptions& options, const Resources& host) const {
  const ExperimentFile& file = *file_;
  const Overrides set = read_set_options(options.set);
  const bool on_cluster = options.on_cluster;
  const auto resources_of = [&](const Profile& profile) {
    return on_cluster ? requested_by(profile, file, set) : host;
  };
  const auto [profile, reason] = choose_profile(file, options, resources_of);
  if (profile) check_preset(file.base, *profile);
  const std::vector<SetOption> set_options = each_option(options.set);
  const auto layers = std::make_shared<Layers>(
      file_, profile, set, automatic_device(profile, host, on_cluster), options, set_options);
  std::vector<Draft> drafts = draft_runs(file_, *layers);
  const Names only = selected_names(options.only, drafts);
  check_chosen(drafts, only, *layers);

  Expansion expansion;
  expansion.profile = profile ? profile->name : "";
  expansion.profile_reason = reason;
  if (profile) {
    expansion.profile_gpu_memory_gib = profile->gpu_memory_gib;
    expansion.overridden = overridden_keys(file.base, *profile, set);
  }
  std::ranges::move(outranked_sentences(drafts), std::back_inserter(expansion.overridden));
  expansion.list_overrides = overrides_of_list(file_, set_options, drafts,
                                               Layers(file_, profile, {}, layers->device, options));
  std::vector<RunOrigin> origins;  // by position
  for (Draft& draft : drafts) {
    const RunOrigin origin = draft.origin;
    const int64_t repeats = draft.repeats;
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      const auto position = static_cast<int64_t>(origins.size());
      origins.push_back(origin);
      // Only drafts that --only leaves out have a problem here. They keep their position.
      if (draft.problem) continue;
      const bool chosen = is_chosen(draft, repeat, only);
      const auto check = [=, check = options.check_gpus && chosen](const Run& run) {
        const Resources resources = on_cluster ? requested(run.spec.slurm) : host;
        if (check) check_ranks(run, resources, *layers, origin);
      };
      Run run = run_of(repeat + 1 == repeats ? std::move(draft) : draft, repeat, position, *layers);
      check(run);
      if (origin.block->doubled) {
        const auto series = series_of(run, origin, layers, check);
        run = doubled_run(series, origin.block->doubled->range.from);
      }
      (chosen ? expansion.runs : expansion.left_out).push_back(std::move(run));
    }
  }
  expansion.place = [layers, origins](const Run& run, const std::string& key) {
    return layers->place(origins[static_cast<size_t>(run.position)], key);
  };
  expansion.variant = [=, file = file_](const Run& run, const std::vector<std::string>& more) {
    std::vector<std::string> all = layers->options.set;
    all.insert(all.end(), more.begin(), more.end());
    const Layers changed(file, profile, read_set_options(all), layers->device, layers->options);
    Draft draft = draft_of(origins[static_cast<size_t>(run.position)], changed);
    if (draft.problem) throw *draft.problem;
    if (draft.doubled()) check_doubled_key(draft, changed);
    return run_of(std::move(draft), run.repeat, run.position, changed);
  };
  return expansion;
}

Expansion expansion_of(const std::string& point, const RunSpec& spec) {
  Expansion expansion;
  expansion.runs.push_back({.point = point, .series = point, .spec = spec, .position = 0});
  expansion.variant = [](Run run, const std::vector<std::string>& set) {
    read_set_options(set).apply(run.spec);
    run.spec = resolved_again(std::move(run.spec));
    return run;
  };
  return expansion;
}

}  // namespace fsdp
