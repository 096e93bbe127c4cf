#include "runner/experiment/experiment.h"

#include <algorithm>
#include <unordered_set>

#include "runner/experiment/experiment_file.h"
#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

using Layers = std::vector<const Overrides*>;

Overrides read_set_options(const std::vector<std::string>& options) {
  Overrides overrides;
  for (const std::string& option : options) {
    const YamlOrigin origin{
        .name = "--set " + option, .folder = std::filesystem::current_path(), .has_lines = false};
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(origin.name, "", "is not path=value, such as strategy.ranks=2");
    }
    overrides.add(YAML::Node(option.substr(0, equals)),
                  parse_yaml(option.substr(equals + 1), origin), origin);
  }
  return overrides;
}

// A run that is named but not yet made.
struct Plan {
  const Point* point;
  const std::vector<size_t>* combination;
  std::string name;
  int64_t position;
  bool is_chosen = true;
};

std::vector<Plan> name_runs(const ExperimentFile& file) {
  std::vector<Plan> plans;
  plans.reserve(file.points.size() * file.sweep.combinations.size());
  std::vector<std::string> suffixes;
  suffixes.reserve(file.sweep.combinations.size());
  for (const auto& combination : file.sweep.combinations) {
    suffixes.push_back(file.sweep.suffix(combination));
  }
  std::unordered_set<std::string> names;
  for (const Point& point : file.points) {
    for (size_t i = 0; i < suffixes.size(); ++i) {
      const std::string name = point.name + suffixes[i];
      if (!names.insert(name).second) {
        throw ConfigError(file.path.string(), "points",
                          "two runs are named '" + name + "'; rename a point");
      }
      const auto position = static_cast<int64_t>(plans.size());
      plans.push_back({&point, &file.sweep.combinations[i], name, position});
    }
  }
  return plans;
}

// Chooses the runs that --only names, by their own name or by their point's.
void choose(std::vector<Plan>& plans, const std::vector<std::string>& only,
            const ExperimentFile& file) {
  if (only.empty()) return;
  std::vector<std::string> points, names;
  for (const Point& point : file.points) points.push_back(point.name);
  names = points;
  for (const Plan& plan : plans) names.push_back(plan.name);
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw ConfigError(
        "--only", name,
        "no point has this name; allowed: " + joined(points) + suggestion(name, names));
  }
  const std::unordered_set<std::string> wanted(only.begin(), only.end());
  for (Plan& plan : plans) {
    plan.is_chosen = wanted.contains(plan.name) || wanted.contains(plan.point->name);
  }
}

// What a point is made of before the sweep and --set, the first to be applied first.
Layers layers_of(const ExperimentFile& file, const Profile* profile, const Point& point) {
  if (!profile) return {&file.base, &point.overrides};
  return {&file.base, &profile->set, &point.overrides};
}

// What the sweep's combination and --set add to that.
Layers layers_above(const ExperimentFile& file, const std::vector<size_t>& combination,
                    const Overrides& set) {
  Layers layers;
  for (size_t axis = 0; axis < combination.size(); ++axis) {
    layers.push_back(&file.sweep.axes[axis].values[combination[axis]].overrides);
  }
  layers.push_back(&set);
  return layers;
}

// Where `key`, or the nearest section around it, was given last.
std::string place_given_last(std::string key, const Layers& layers, const std::string& file) {
  while (!key.empty()) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      if (std::string place = (*layer)->place(key); !place.empty()) return place;
    }
    const size_t dot = key.rfind('.');
    key.resize(dot == std::string::npos ? 0 : dot);
  }
  return file;
}

void check_ranks(const RunSpec& spec, const Resources& resources) {
  const int64_t ranks = spec.strategy.ranks;
  if (spec.device != DeviceKind::kCuda || ranks <= resources.gpu_count) return;
  const std::string limit = std::to_string(resources.gpu_count);
  throw ConfigError(
      "", "strategy.ranks",
      std::to_string(ranks) + (ranks == 1 ? " rank needs " : " ranks need ") +
          std::to_string(ranks) + (ranks == 1 ? " GPU" : " GPUs") + ", but there are " + limit +
          "; allowed: " + (resources.gpu_count > 0 ? "at most " + limit + ", or " : "") +
          "device: cpu");
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
const std::filesystem::path& Experiment::file() const { return contents_->file.path; }
const std::string& Experiment::text() const { return contents_->file.text; }

Expansion Experiment::expand(const ExpandOptions& options, const Resources& resources) const {
  const ExperimentFile& file = contents_->file;
  const auto [profile, reason] =
      choose_profile(file.profiles, options.profile, resources, file.profiles_place);
  const Overrides set = read_set_options(options.set);
  std::vector<Plan> plans = name_runs(file);
  choose(plans, options.only, file);

  Expansion expansion;
  expansion.profile = profile ? profile->name : "";
  expansion.profile_reason = reason;
  expansion.runs.reserve(plans.size());
  expansion.place = [&file, profile = profile, set](const Run& run, const std::string& key) {
    const auto position = static_cast<size_t>(run.position);
    const size_t combinations = file.sweep.combinations.size();
    Layers layers = layers_of(file, profile, file.points[position / combinations]);
    const Layers above = layers_above(file, file.sweep.combinations[position % combinations], set);
    layers.insert(layers.end(), above.begin(), above.end());
    return place_given_last(key, layers, file.path.string());
  };
  const Point* point = nullptr;
  RunSpec point_spec;
  for (Plan& plan : plans) {
    if (plan.point != point) {  // a point's runs are neighbours, and share what they are made of
      point = plan.point;
      point_spec = RunSpec{};
      for (const Overrides* layer : layers_of(file, profile, *point)) layer->apply(point_spec);
    }
    Run run{plan.name, point_spec, plan.position};
    RunSpec& spec = run.spec;
    for (const Overrides* layer : layers_above(file, *plan.combination, set)) layer->apply(spec);
    try {
      if (spec.device == DeviceKind::kAuto) spec.device = automatic_device(profile, resources);
      spec = resolved(std::move(spec));
      if (options.check_gpus && plan.is_chosen) check_ranks(spec, resources);
      (plan.is_chosen ? expansion.runs : expansion.left_out).push_back(std::move(run));
    } catch (const ConfigError& error) {
      if (!plan.is_chosen) continue;
      throw ConfigError(expansion.place(run, error.key()), error.key(),
                        error.problem() + " (in '" + plan.name + "')");
    }
  }
  return expansion;
}

}  // namespace fsdp
