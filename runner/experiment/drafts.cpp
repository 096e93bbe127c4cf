// Makes a draft of every run. A draft may be wrong until it is chosen.
#include "runner/experiment/drafts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

int64_t repeats_of(const SweepBlock& block, const ExpandOptions& options) {
  return options.repeats > 0 ? options.repeats : block.repeats.count;
}

// Returns every combination of every point, in the file's order. Throws ConfigError if the
// experiment has too many runs.
std::vector<RunOrigin> origins_of(const ExperimentFile& file, const ExpandOptions& options) {
  std::vector<RunOrigin> origins;
  size_t runs = 0;
  for (const Point& point : file.points) {
    for (const SweepBlock& block : file.sweep_of(point)) {
      runs += block.combinations.size() * static_cast<size_t>(repeats_of(block, options));
      if (runs > kMaximumRuns) {
        throw ConfigError(
            block.place.empty() ? point.place : block.place, "",
            fmt::format("the experiment has more runs than allowed: at most {}", kMaximumRuns));
      }
      for (const Combination& combination : block.combinations) {
        origins.push_back({&point, &block, &combination});
      }
    }
  }
  return origins;
}

bool is_of_block(const Exclusion* exclusion, const SweepBlock& block) {
  return std::ranges::any_of(block.exclusions,
                             [&](const Exclusion& each) { return &each == exclusion; });
}

// True if `exclusion` leaves out a run with at least one of the profiles, on the CPU or on GPUs.
// Ignores --set.
bool ever_matches(const Exclusion* exclusion, const std::shared_ptr<const ExperimentFile>& file) {
  std::vector<const Profile*> profiles;
  for (const Profile& profile : file->profiles) profiles.push_back(&profile);
  if (profiles.empty()) profiles.push_back(nullptr);
  for (const Profile* profile : profiles) {
    for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      const Layers layers(file, profile, {}, device);
      for (const RunOrigin& origin : origins_of(*file, layers.options)) {
        if (!is_of_block(exclusion, *origin.block)) continue;
        if (exclusion->matches(origin.point->name, draft_of(origin, layers).spec)) return true;
      }
    }
  }
  return false;
}

void check_names_differ(const std::vector<Draft>& drafts) {
  std::unordered_map<std::string, const Draft*> owners;
  for (const Draft& draft : drafts) {
    for (int64_t repeat = 0; repeat < draft.repeats; ++repeat) {
      const auto [owner, is_new] = owners.emplace(draft.name(repeat), &draft);
      if (is_new) continue;
      throw ConfigError(draft.place(), "",
                        fmt::format("two runs are named '{}'; the first comes from {}; leave one "
                                    "out, or rename a point",
                                    owner->first, owner->second->place()));
    }
  }
}

// Returns the name of a draft's series up to its last '='. The value of a doubled key follows
// there.
std::string name_before_value(const Draft& draft) {
  return draft.series.substr(0, draft.series.rfind('=') + 1);
}

// The names of a doubled key's later values are unknown, so no other name may begin like them.
void check_doubled_names_differ(const std::vector<Draft>& drafts) {
  std::unordered_map<std::string, const Draft*> owners;
  for (const Draft& draft : drafts) {
    if (draft.doubled()) owners.emplace(name_before_value(draft), &draft);
  }
  if (owners.empty()) return;
  for (const Draft& draft : drafts) {
    const auto owner = owners.find(name_before_value(draft));
    if (owner == owners.end() || owner->second == &draft) continue;
    throw ConfigError(draft.place(), "",
                      fmt::format("'{}' may also be met by the doubling at {}; leave one out, or "
                                  "rename a point",
                                  draft.series, owner->second->doubled()->place));
  }
}

// Sets the keys that are left open. Runs that keep checkpoints go on from them.
void fill_in(RunSpec& spec, const Layers& layers) {
  const bool on_cluster = layers.options.on_cluster;
  if (layers.options.for_any_gpu) {
    spec.device = DeviceKind::kCuda;
  } else if (spec.device == DeviceKind::kAuto) {
    const bool asks_for_gpus = on_cluster && spec.slurm.gpus_per_node > 0;
    spec.device = asks_for_gpus ? DeviceKind::kCuda : layers.device;
  }
  if (wants_checkpoints(spec) && !spec.resume.is_given()) spec.resume.is_auto = true;
}

}  // namespace

bool SetOption::changes_results() const {
  const auto is_counted = [](size_t number) {
    const std::optional<Effect>& effect = run_spec_keys()[number].effect;
    return !effect || *effect > Effect::kHowOnly;
  };
  return !overrides.preset().empty() || std::ranges::any_of(overrides.given(), is_counted);
}

bool SetOption::gives_path() const {
  return std::ranges::any_of(overrides.given(),
                             [](size_t number) { return run_spec_keys()[number].is_path; });
}

// Visits the layers in their order of application.
template <typename Visit>
void Layers::visit(const RunOrigin& origin, std::optional<int64_t> doubled,
                   const Visit& visit) const {
  visit(file_->base);
  if (profile_) visit(profile_->set);
  visit(origin.point->overrides);
  for (const size_t number : *origin.combination) visit(origin.block->values[number].overrides);
  if (const auto& key = origin.block->doubled) visit(key->with(doubled.value_or(key->range.from)));
  visit(set_);
}

SpecDraft Layers::spec_draft_of(const RunOrigin& origin, std::optional<int64_t> doubled) const {
  SpecDraft draft;
  visit(origin, doubled, [&](const Overrides& layer) { draft.apply(layer); });
  return draft;
}

std::vector<OutrankedKey> Layers::outranked_keys(const RunOrigin& origin) const {
  std::vector<OutrankedKey> found;
  const auto look_in = [&](const Overrides& layer) {
    for (const size_t number : layer.given()) {
      const RunSpecKey& key = run_spec_keys()[number];
      const auto changes = [&](const SetOption& option) {
        return option.overrides.changes(number);
      };
      const auto option = std::ranges::find_if(set_options_, changes);
      if (option == set_options_.end()) continue;
      std::string value = values_of(layer)[number].second;
      if (value == key.yaml(spec_of(origin))) continue;
      found.push_back({&*option, key.name, std::move(value), layer.place(key.name)});
    }
  };
  look_in(origin.point->overrides);
  for (const size_t number : *origin.combination) look_in(origin.block->values[number].overrides);
  return found;
}

std::string Layers::place(const RunOrigin& origin, std::string key) const {
  std::string last;
  const auto look_for = [&](const std::string& wanted) {
    visit(origin, {}, [&](const Overrides& layer) {
      if (std::string place = layer.place(wanted); !place.empty()) last = std::move(place);
    });
  };
  look_for(key);
  while (last.empty() && key.find('.') != std::string::npos) {
    key.resize(key.rfind('.'));
    look_for(key + ".kind");  // a section's kind requires most of its missing keys
    if (last.empty()) look_for(key);
  }
  return last.empty() ? file_->path.string() : last;
}

Draft draft_of(const RunOrigin& origin, const Layers& layers, std::optional<int64_t> doubled) {
  const SpecDraft given = layers.spec_draft_of(origin, doubled);
  Draft draft{.origin = origin,
              .series = "",
              .spec = given.plain(),
              .repeats = repeats_of(*origin.block, layers.options)};
  const auto name = [&] {
    draft.series = draft.name_without_doubled();
    if (const auto& key = draft.doubled()) {
      draft.series += key->suffix(doubled.value_or(key->range.from));
    }
  };
  name();
  try {
    draft.spec = given.evaluated();
    draft.outranked = layers.outranked_keys(origin);
    name();
    fill_in(draft.spec, layers);
    draft.spec = resolved(draft.spec);
  } catch (const ConfigError& error) {
    const std::string place =
        error.place().empty() ? layers.place(origin, error.key()) : error.place();
    draft.problem.emplace(place, error.key(), error.problem() + " (in '" + draft.series + "')");
  }
  return draft;
}

std::string Draft::name(int64_t repeat) const {
  return repeats > 1 ? fmt::format("{} #{}", series, repeat + 1) : series;
}

std::string Draft::name_in_file() const {
  return origin.point->name + origin.block->suffix(*origin.combination);
}

std::string Draft::name_without_doubled() const {
  std::vector<std::string> texts;
  for (const OutrankedKey& key : outranked) {
    const std::string& text = key.option->text;
    const bool is_new = std::ranges::find(texts, text) == texts.end();
    if (is_new && key.option->changes_results()) texts.push_back(text);
  }
  return name_in_file() + (texts.empty() ? "" : fmt::format(" [{}]", fmt::join(texts, ", ")));
}

std::string Draft::place() const {
  const std::string& place = origin.block->place_of(*origin.combination);
  return place.empty() ? origin.point->place : place;
}

std::vector<Draft> draft_runs(const std::shared_ptr<const ExperimentFile>& file,
                              const Layers& layers) {
  std::vector<Draft> drafts;
  std::unordered_set<const Exclusion*> matched;
  const Exclusion* last_matched = nullptr;
  for (const RunOrigin& origin : origins_of(*file, layers.options)) {
    Draft draft = draft_of(origin, layers);
    bool is_excluded = false;
    for (const Exclusion& exclusion : origin.block->exclusions) {
      if (!exclusion.matches(origin.point->name, draft.spec)) continue;
      matched.insert(&exclusion);
      last_matched = &exclusion;
      is_excluded = true;
    }
    if (!is_excluded) drafts.push_back(std::move(draft));
  }
  for (const Exclusion* exclusion : file->exclusions()) {
    if (matched.contains(exclusion) || ever_matches(exclusion, file)) continue;
    throw ConfigError(
        exclusion->place(), "sweep.exclude",
        "leaves out nothing: no run of this block has all of these values; correct or remove it");
  }
  check_names_differ(drafts);
  check_doubled_names_differ(drafts);
  if (drafts.empty()) {
    throw ConfigError(last_matched->place(), "sweep.exclude",
                      "leaves no run; allowed: exclusions that leave at least one run");
  }
  return drafts;
}

void check_specs_differ(const std::vector<const Draft*>& drafts, const Layers& layers) {
  std::unordered_map<std::string, std::vector<const Draft*>> alike;  // by all keys except paths
  const Point* point = nullptr;
  for (const Draft* draft : drafts) {
    if (draft->origin.point != point) alike.clear();  // a point's drafts are neighbours
    point = draft->origin.point;
    std::vector<const Draft*>& others = alike[differences_from_default(draft->spec)];
    const auto same = std::ranges::find(others, draft->spec, &Draft::spec);
    if (same == others.end()) {
      others.push_back(draft);
      continue;
    }
    const std::string are_same = fmt::format("the runs '{}' and '{}' are the same",
                                             (*same)->name_in_file(), draft->name_in_file());
    for (const size_t number : *draft->origin.combination) {
      const std::string& key = draft->origin.block->values[number].key;
      if (const std::string set = layers.place_in_set(key); !set.empty()) {
        throw ConfigError(set, key,
                          "overrides what the sweep varies, so that " + are_same +
                              "; choose from the sweep with --only");
      }
    }
    throw ConfigError(
        draft->place(), "",
        fmt::format("{}; the first comes from {}; leave one out", are_same, (*same)->place()));
  }
}

}  // namespace fsdp
