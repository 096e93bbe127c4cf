#include "runner/experiment/experiment.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "contract/text/config_error.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/drafts.h"
#include "runner/experiment/experiment_file.h"
#include "runner/experiment/layers.h"

namespace fsdp {
namespace {

Overrides read_set_options(const std::vector<std::string>& options) {
  Overrides overrides;
  for (const std::string& option : options) {
    const YamlOrigin origin{
        .name = "--set " + option, .folder = std::filesystem::current_path(), .has_lines = false};
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(origin.name, "", "is not path=value, such as strategy.ranks=2");
    }
    const std::string key = option.substr(0, equals);
    overrides.add({YAML::Node(key), parse_yaml(option.substr(equals + 1), origin), key, origin});
  }
  return overrides;
}

// Whether --only chooses a run, by its own name, its series' or its point's.
class OnlyOption {
 public:
  // Throws ConfigError when it names what is not there.
  OnlyOption(const std::vector<std::string>& names, const std::vector<Draft>& drafts)
      : names_(names.begin(), names.end()) {
    if (names.empty()) return;
    std::vector<std::string> points, all;
    for (const Draft& draft : drafts) {
      const std::string& point = draft.origin.point->name;
      if (points.empty() || points.back() != point) points.push_back(point);
      all.push_back(draft.series);
      if (draft.doubled()) all.push_back(draft.name_without_doubled());
      for (int64_t i = 0; i < draft.repeats(); ++i) all.push_back(draft.name(i));
    }
    all.insert(all.begin(), points.begin(), points.end());
    for (const std::string& name : names) {
      if (std::ranges::find(all, name) != all.end()) continue;
      throw ConfigError(
          "--only", name,
          "no point has this name; allowed: " + joined(points) + suggestion(name, all));
    }
  }

  bool chooses(const Draft& draft, int64_t repeat) const {
    return names_.empty() || names_.contains(draft.origin.point->name) ||
           names_.contains(draft.series) || names_.contains(draft.name(repeat)) ||
           (draft.doubled() && names_.contains(draft.name_without_doubled()));
  }

  bool chooses_any_of(const Draft& draft) const {
    for (int64_t repeat = 0; repeat < draft.repeats(); ++repeat) {
      if (chooses(draft, repeat)) return true;
    }
    return false;
  }

 private:
  std::unordered_set<std::string> names_;
};

void check_doubled_key(const Draft& draft, const Layers& layers) {
  const DoubledKey& doubled = *draft.doubled();
  if (!doubled.with(doubled.range.from).matches(layers.spec_of(draft.origin))) {
    const std::string set = layers.place_in_set(doubled.key);
    throw ConfigError(
        set.empty() ? "--set" : set, doubled.key,
        "overrides what the sweep doubles at " + doubled.place + "; leave one of the two out");
  }
  if (draft.spec.device == DeviceKind::kCpu && draft.spec.memory_limit_gib == 0 &&
      !doubled.range.to) {
    throw ConfigError(doubled.place, doubled.key,
                      "is doubled until a run is out of memory, which on the CPU is when this "
                      "machine's memory is full; give `to`, or memory_limit_gib");
  }
}

// Throws the problem of a draft that is chosen. What is left out may be wrong.
void check_chosen(const std::vector<Draft>& drafts, const OnlyOption& only, const Layers& layers) {
  std::vector<const Draft*> chosen;
  for (const Draft& draft : drafts) {
    if (!only.chooses_any_of(draft)) continue;
    if (draft.problem) throw *draft.problem;
    if (draft.doubled()) check_doubled_key(draft, layers);
    chosen.push_back(&draft);
  }
  check_specs_differ(chosen, layers);
}

void add_to_seed(Run& run, const Layers& layers, const RunOrigin& origin) {
  int64_t& seed = run.spec.train.seed;
  if (seed > kLargestSeed - run.repeat) {
    throw ConfigError(layers.place(origin, "train.seed"), "train.seed",
                      std::to_string(seed) + " is too large to add the repeat's number to it");
  }
  seed += run.repeat;
}

// What a section `slurm` asks for. GPUs whose memory is not known have enough.
Resources requested(const SlurmSpec& slurm) {
  return {.gpu_count = slurm.nodes * slurm.gpus_per_node,
          .gpu_memory_gib = slurm.gpu_memory_gib.value_or(std::numeric_limits<double>::infinity()),
          .cpu_cores = slurm.cpus_per_task,
          .are_requested = true};
}

// What base, the profile and --set ask Slurm for.
Resources requested_by(const Profile& profile, const ExperimentFile& file, const Overrides& set) {
  SpecDraft draft;
  for (const Overrides* layer : {&file.base, &profile.set, &set}) draft.apply(*layer);
  try {
    return requested(draft.evaluated().slurm);
  } catch (const ConfigError&) {  // an expression over what only a point gives
    return requested(draft.plain().slurm);
  }
}

// How to have no more ranks than GPUs.
std::string remedy_for_ranks(const Resources& resources, const SlurmSpec& slurm) {
  if (resources.are_requested) {
    return "slurm.nodes " + std::to_string(slurm.nodes) + " x slurm.gpus_per_node " +
           std::to_string(slurm.gpus_per_node) + " ask for " + std::to_string(resources.gpu_count) +
           "; raise one of these, or set device: cpu";
  }
  const std::string limit = std::to_string(resources.gpu_count);
  return "there are " + limit +
         "; allowed: " + (resources.gpu_count > 0 ? "at most " + limit + ", or " : "") +
         "device: cpu";
}

void check_ranks(const Run& run, const Resources& resources, const Layers& layers,
                 const RunOrigin& origin) {
  const int64_t ranks = run.spec.strategy.ranks;
  if (run.spec.device != DeviceKind::kCuda || ranks <= resources.gpu_count) return;
  throw ConfigError(layers.place(origin, "strategy.ranks"), "strategy.ranks",
                    std::to_string(ranks) + (ranks == 1 ? " rank needs " : " ranks need ") +
                        counted(ranks, "GPU") + ", but " +
                        remedy_for_ranks(resources, run.spec.slurm) + " (in '" + run.series + "')");
}

Run run_of(Draft draft, int64_t repeat, int64_t position, const Layers& layers) {
  std::string name = draft.name(repeat);
  Run run{std::move(name), std::move(draft.series), repeat, std::move(draft.spec), position};
  if (draft.origin.block->repeats.change_seed) add_to_seed(run, layers, draft.origin);
  return run;
}

// The largest value of a doubled key that a total batch allows, if that is what bounds it.
std::optional<int64_t> last_value(const std::string& key, const RunSpec& given) {
  if (key != "batch.size_per_rank" || !given.batch.total) return std::nullopt;
  return *given.batch.total / given.strategy.ranks;
}

// The series that `first` begins. `check` throws ConfigError for a run that cannot be launched.
std::shared_ptr<const DoublingSeries> series_of(const Run& first, const RunOrigin& origin,
                                                std::shared_ptr<const Layers> layers,
                                                AutomaticValues automatic,
                                                std::function<void(const Run&)> check) {
  const DoubledKey& key = *origin.block->doubled;
  const auto last = last_value(key.key, layers->spec_of(origin));
  automatic.device = first.spec.device;
  const auto make = [=, repeat = first.repeat, position = first.position](int64_t value) {
    Draft draft = draft_of(origin, *layers, automatic, value);
    if (draft.problem) throw *draft.problem;
    Run run = run_of(std::move(draft), repeat, position, *layers);
    check(run);
    return run;
  };
  return std::make_shared<DoublingSeries>(key, last, make);
}

// The GPUs that there are, or that a profile named outright is made for.
AutomaticValues automatic_values(const Profile* profile, const Resources& host, bool on_cluster) {
  const bool wants_gpus = profile && profile->requirement.gpus;
  const bool has_gpus = !on_cluster && host.gpu_count > 0;
  return {.device = has_gpus || wants_gpus ? DeviceKind::kCuda : DeviceKind::kCpu,
          .on_cluster = on_cluster};
}

}  // namespace

struct Experiment::Contents {
  ExperimentFile file;
};

Experiment::Experiment(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
Experiment::~Experiment() = default;
Experiment::Experiment(Experiment&&) noexcept = default;

Experiment Experiment::load(const std::filesystem::path& file) {
  return Experiment(std::make_unique<Contents>(Contents{read_experiment_file(file)}));
}

Experiment Experiment::from_text(const std::filesystem::path& file, std::string text) {
  return Experiment(
      std::make_unique<Contents>(Contents{experiment_file_from(file, std::move(text))}));
}

const std::string& Experiment::name() const { return contents_->file.name; }
const std::string& Experiment::title() const { return contents_->file.title; }
Comparison Experiment::compare() const { return contents_->file.compare; }
const std::filesystem::path& Experiment::file() const { return contents_->file.path; }
const std::string& Experiment::text() const { return contents_->file.text; }

Expansion Experiment::expand(const ExpandOptions& options, const Resources& host) const {
  const ExperimentFile& file = contents_->file;
  const Overrides set = read_set_options(options.set);
  const bool on_cluster = options.on_cluster;
  const auto resources_of = [&](const Profile& profile) {
    return on_cluster ? requested_by(profile, file, set) : host;
  };
  const auto [profile, reason] =
      choose_profile(file.profiles, options.profile, resources_of, file.profiles_place);
  const auto layers = std::make_shared<Layers>(file, profile, set);
  const AutomaticValues automatic = automatic_values(profile, host, on_cluster);
  std::vector<Draft> drafts = draft_runs(file, *layers, automatic);
  const OnlyOption only(options.only, drafts);
  check_chosen(drafts, only, *layers);

  Expansion expansion;
  expansion.profile = profile ? profile->name : "";
  expansion.profile_reason = reason;
  std::vector<RunOrigin> origins;  // by position
  for (Draft& draft : drafts) {
    const RunOrigin origin = draft.origin;
    const int64_t repeats = draft.repeats();
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      const auto position = static_cast<int64_t>(origins.size());
      origins.push_back(origin);
      if (draft.problem) continue;
      const bool is_chosen = only.chooses(draft, repeat);
      const auto check = [=, check = options.check_gpus && is_chosen](const Run& run) {
        const Resources resources = on_cluster ? requested(run.spec.slurm) : host;
        if (check) check_ranks(run, resources, *layers, origin);
      };
      Run run = run_of(repeat + 1 == repeats ? std::move(draft) : draft, repeat, position, *layers);
      check(run);
      if (origin.block->doubled) {
        const auto series = series_of(run, origin, layers, automatic, check);
        run = doubled_run(series, origin.block->doubled->range.from);
      }
      (is_chosen ? expansion.runs : expansion.left_out).push_back(std::move(run));
    }
  }
  expansion.place = [layers, origins = std::move(origins)](const Run& run, const std::string& key) {
    return layers->place(origins[static_cast<size_t>(run.position)], key);
  };
  return expansion;
}

}  // namespace fsdp
