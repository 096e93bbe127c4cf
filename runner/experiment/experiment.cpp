#include "runner/experiment/experiment.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "runner/experiment/drafts.h"
#include "runner/experiment/experiment_file.h"
#include "runner/experiment/layers.h"
#include "trainer/contract/config_error.h"

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
           names_.contains(draft.series) || names_.contains(draft.name(repeat));
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

// Throws the problem of a draft that is chosen. What is left out may be wrong.
void check_chosen(const std::vector<Draft>& drafts, const OnlyOption& only, const Layers& layers) {
  std::vector<const Draft*> chosen;
  for (const Draft& draft : drafts) {
    if (!only.chooses_any_of(draft)) continue;
    if (draft.problem) throw *draft.problem;
    chosen.push_back(&draft);
  }
  check_specs_differ(chosen, layers);
}

void add_to_seed(Run& run, const Layers& layers, const RunOrigin& origin) {
  int64_t& seed = run.spec.train.seed;
  if (seed > std::numeric_limits<int64_t>::max() - run.repeat) {
    throw ConfigError(layers.place(origin, "train.seed"), "train.seed",
                      std::to_string(seed) + " is too large to add the repeat's number to it");
  }
  seed += run.repeat;
}

void check_ranks(const Run& run, const Resources& resources, const Layers& layers,
                 const RunOrigin& origin) {
  const int64_t ranks = run.spec.strategy.ranks;
  if (run.spec.device != DeviceKind::kCuda || ranks <= resources.gpu_count) return;
  const std::string limit = std::to_string(resources.gpu_count);
  throw ConfigError(layers.place(origin, "strategy.ranks"), "strategy.ranks",
                    std::to_string(ranks) + (ranks == 1 ? " rank needs " : " ranks need ") +
                        counted(ranks, "GPU") + ", but there are " + limit + "; allowed: " +
                        (resources.gpu_count > 0 ? "at most " + limit + ", or " : "") +
                        "device: cpu (in '" + run.series + "')");
}

// What `device: auto` is: the GPUs that there are, or that a profile named outright is made for.
DeviceKind automatic_device(const Profile* profile, const Resources& resources) {
  const bool wants_gpus = profile && profile->requirement.gpus;
  return resources.gpu_count > 0 || wants_gpus ? DeviceKind::kCuda : DeviceKind::kCpu;
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

const std::string& Experiment::name() const { return contents_->file.name; }
const std::string& Experiment::title() const { return contents_->file.title; }
Comparison Experiment::compare() const { return contents_->file.compare; }
const std::filesystem::path& Experiment::file() const { return contents_->file.path; }
const std::string& Experiment::text() const { return contents_->file.text; }

Expansion Experiment::expand(const ExpandOptions& options, const Resources& resources) const {
  const ExperimentFile& file = contents_->file;
  const auto [profile, reason] =
      choose_profile(file.profiles, options.profile, resources, file.profiles_place);
  const auto layers = std::make_shared<Layers>(file, profile, read_set_options(options.set));
  std::vector<Draft> drafts = draft_runs(file, *layers, automatic_device(profile, resources));
  const OnlyOption only(options.only, drafts);
  check_chosen(drafts, only, *layers);

  Expansion expansion;
  expansion.profile = profile ? profile->name : "";
  expansion.profile_reason = reason;
  std::vector<RunOrigin> origins;  // by position
  for (Draft& draft : drafts) {
    for (int64_t repeat = 0; repeat < draft.repeats(); ++repeat) {
      const auto position = static_cast<int64_t>(origins.size());
      origins.push_back(draft.origin);
      if (draft.problem) continue;
      const bool is_last = repeat + 1 == draft.repeats();
      Run run{draft.name(repeat), draft.series, repeat,
              is_last ? std::move(draft.spec) : draft.spec, position};
      if (draft.origin.block->repeats.change_seed) add_to_seed(run, *layers, draft.origin);
      const bool is_chosen = only.chooses(draft, repeat);
      if (options.check_gpus && is_chosen) check_ranks(run, resources, *layers, draft.origin);
      (is_chosen ? expansion.runs : expansion.left_out).push_back(std::move(run));
    }
  }
  expansion.place = [layers, origins = std::move(origins)](const Run& run, const std::string& key) {
    return layers->place(origins[static_cast<size_t>(run.position)], key);
  };
  return expansion;
}

}  // namespace fsdp
