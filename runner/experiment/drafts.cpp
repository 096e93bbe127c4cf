#include "runner/experiment/drafts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

// Calls visit(origin) for every combination of every point, in the order of the file.
template <typename Visit>
void visit_combinations(const ExperimentFile& file, Visit visit) {
  for (const Point& point : file.points) {
    for (const SweepBlock& block : file.sweep_of(point)) {
      for (const Combination& combination : block.combinations) {
        visit(RunOrigin{&point, &block, &combination});
      }
    }
  }
}

// Throws when there are too many runs. Returns the number of combinations.
size_t count_combinations(const ExperimentFile& file) {
  size_t combinations = 0;
  size_t runs = 0;
  for (const Point& point : file.points) {
    for (const SweepBlock& block : file.sweep_of(point)) {
      combinations += block.combinations.size();
      runs += block.combinations.size() * static_cast<size_t>(block.repeats.count);
      if (runs <= kMaximumRuns) continue;
      throw ConfigError(
          block.place.empty() ? point.place : block.place, "",
          "the experiment has more runs than allowed: at most " + std::to_string(kMaximumRuns));
    }
  }
  return combinations;
}

// Whether there is a profile with which `exclusion`, which is none of --set's concern, leaves
// something out.
bool ever_matches(const Exclusion& exclusion, const ExperimentFile& file) {
  std::vector<const Profile*> profiles;
  for (const Profile& profile : file.profiles) profiles.push_back(&profile);
  if (profiles.empty()) profiles.push_back(nullptr);
  bool is_matched = false;
  for (const Profile* profile : profiles) {
    const Layers layers(file, profile, {});
    visit_combinations(file, [&](const RunOrigin& origin) {
      const auto& exclusions = origin.block->exclusions;
      const bool is_of_block =
          &exclusion >= exclusions.data() && &exclusion < exclusions.data() + exclusions.size();
      if (is_matched || !is_of_block) return;
      for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
        if (exclusion.matches(origin.point->name, draft_of(origin, layers, {device}).spec)) {
          is_matched = true;
        }
      }
    });
  }
  return is_matched;
}

void check_exclusions_match(const ExperimentFile& file,
                            const std::unordered_set<const Exclusion*>& matched) {
  const auto check = [&](const SweepBlocks& blocks) {
    for (const SweepBlock& block : blocks) {
      for (const Exclusion& exclusion : block.exclusions) {
        if (matched.contains(&exclusion) || ever_matches(exclusion, file)) continue;
        throw ConfigError(exclusion.place(), "sweep.exclude",
                          "leaves out nothing: no run of this block has all of these values; "
                          "correct it, or take it away");
      }
    }
  };
  check(file.sweep);
  for (const Point& point : file.points) {
    if (point.sweep) check(*point.sweep);
  }
}

void check_names_differ(const std::vector<Draft>& drafts) {
  std::unordered_map<std::string, const Draft*> owners;
  for (const Draft& draft : drafts) {
    for (int64_t repeat = 0; repeat < draft.repeats(); ++repeat) {
      const auto [owner, is_new] = owners.emplace(draft.name(repeat), &draft);
      if (is_new) continue;
      throw ConfigError(draft.place(), "",
                        "two runs are named '" + owner->first + "'; the first comes from " +
                            owner->second->place() + "; leave one out, or rename a point");
    }
  }
}

// The name of a draft's series up to the value of its doubled key, or of what reads like one.
std::string name_before_value(const Draft& draft) {
  return draft.series.substr(0, draft.series.rfind('=') + 1);
}

// What a doubled key's later values are called cannot be known, so nothing else is called so.
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
                      "'" + draft.series + "' may also be met by the doubling at " +
                          owner->second->doubled()->place + "; leave one out, or rename a point");
  }
}

}  // namespace

void AutomaticValues::fill_in(RunSpec& spec) const {
  if (spec.device == DeviceKind::kAuto) {
    spec.device = on_cluster && spec.slurm.gpus_per_node > 0 ? DeviceKind::kCuda : device;
  }
  if (on_cluster && wants_checkpoints(spec) && !spec.resume.is_given()) spec.resume.is_auto = true;
}

Draft draft_of(const RunOrigin& origin, const Layers& layers, AutomaticValues automatic,
               std::optional<int64_t> doubled) {
  const SpecDraft given = layers.spec_draft_of(origin, doubled);
  Draft draft{.origin = origin,
              .series = origin.point->name + origin.block->suffix(*origin.combination),
              .spec = given.plain(),
              .problem = std::nullopt};
  if (const auto& key = draft.doubled()) {
    draft.series += key->suffix(doubled.value_or(key->range.from));
  }
  try {
    draft.spec = given.evaluated();
    automatic.fill_in(draft.spec);
    draft.spec = resolved(draft.spec);
  } catch (const ConfigError& error) {
    const std::string place =
        error.place().empty() ? layers.place(origin, error.key()) : error.place();
    draft.problem.emplace(place, error.key(), error.problem() + " (in '" + draft.series + "')");
  }
  return draft;
}

std::string Draft::name(int64_t repeat) const {
  return repeats() > 1 ? series + " #" + std::to_string(repeat + 1) : series;
}

std::string Draft::name_without_doubled() const {
  return origin.point->name + origin.block->suffix(*origin.combination);
}

std::string Draft::place() const {
  const std::string& place = origin.block->place_of(*origin.combination);
  return place.empty() ? origin.point->place : place;
}

std::vector<Draft> draft_runs(const ExperimentFile& file, const Layers& layers,
                              AutomaticValues automatic) {
  std::vector<Draft> drafts;
  drafts.reserve(count_combinations(file));
  std::unordered_set<const Exclusion*> matched;
  const Exclusion* last_matched = nullptr;
  visit_combinations(file, [&](const RunOrigin& origin) {
    Draft draft = draft_of(origin, layers, automatic);
    bool is_excluded = false;
    for (const Exclusion& exclusion : origin.block->exclusions) {
      if (!exclusion.matches(origin.point->name, draft.spec)) continue;
      matched.insert(&exclusion);
      last_matched = &exclusion;
      is_excluded = true;
    }
    if (!is_excluded) drafts.push_back(std::move(draft));
  });
  check_exclusions_match(file, matched);
  check_names_differ(drafts);
  check_doubled_names_differ(drafts);
  if (drafts.empty()) {
    throw ConfigError(last_matched->place(), "sweep.exclude",
                      "with this no run is left; allowed: exclusions that leave at least one");
  }
  return drafts;
}

void check_specs_differ(const std::vector<const Draft*>& drafts, const Layers& layers) {
  std::unordered_map<std::string, std::vector<const Draft*>> alike;  // but for their paths
  const Point* point = nullptr;
  for (const Draft* draft : drafts) {
    if (draft->origin.point != point) alike.clear();  // a point's drafts are neighbours
    point = draft->origin.point;
    std::vector<const Draft*>& others = alike[differences_from_default(draft->spec)];
    for (const Draft* other : others) {
      if (other->spec != draft->spec) continue;
      const std::string are_same =
          "the runs '" + other->series + "' and '" + draft->series + "' are the same";
      for (const size_t number : *draft->origin.combination) {
        const std::string& key = draft->origin.block->values[number].key;
        if (const std::string set = layers.place_in_set(key); !set.empty()) {
          throw ConfigError(set, key,
                            "overrides what the sweep varies, so that " + are_same +
                                "; choose from the sweep with --only");
        }
      }
      throw ConfigError(draft->place(), "",
                        are_same + "; the first comes from " + other->place() + "; leave one out");
    }
    others.push_back(draft);
  }
}

}  // namespace fsdp
