#include <algorithm>
#include <map>
#include <utility>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/report/series.h"

namespace fsdp {
namespace {

// A name can mean several series; the smallest of these is taken.
enum class Match { kName, kRunOfIt, kBeginning, kNone };

Match match(const Series& series, const std::string& name) {
  const std::string& own = series.median.point;
  if (own == name) return Match::kName;
  const auto is_called = [&](const ComparisonRow* run) { return run->point == name; };
  if (std::ranges::any_of(series.runs, is_called)) return Match::kRunOfIt;
  return own.starts_with(name + ' ') ? Match::kBeginning : Match::kNone;
}

struct Candidate {
  const Series* series = nullptr;
  Match how = Match::kNone;

  void consider(const Series& other, Match how_other) {
    if (how_other < how) *this = {&other, how_other};
  }
};

// An experiment and the group in it.
using Place = std::pair<std::string, std::string>;

Place place_of_group(const Series& series) { return {series.median.experiment, series.group}; }

// What `name` means in each group and in each experiment (the group is empty).
std::pair<std::map<Place, Candidate>, std::map<std::string, Candidate>> find_named(
    const std::deque<Series>& all, const std::string& name) {
  std::map<Place, Candidate> in_groups;
  std::map<std::string, Candidate> in_experiments;
  std::vector<std::string> names;
  bool found = false;
  for (const Series& series : all) {
    const Match how = match(series, name);
    in_groups[place_of_group(series)].consider(series, how);
    in_experiments[series.median.experiment].consider(series, how);
    found = found || how != Match::kNone;
    names.push_back(series.median.point);
  }
  if (!found && !all.empty()) {
    throw ConfigError("--baseline", "",
                      "there is no point '" + name + "'" + suggestion(name, names));
  }
  return {std::move(in_groups), std::move(in_experiments)};
}

}  // namespace

void put_baselines(std::deque<Series>& all, const std::string& name) {
  std::map<Place, const Series*> baselines;
  for (const Series& series : all) {
    const Series*& baseline = baselines[place_of_group(series)];
    if (baseline == nullptr && series.finished_count > 0) baseline = &series;
  }
  if (!name.empty()) {
    auto [in_groups, in_experiments] = find_named(all, name);
    for (auto& [place, baseline] : baselines) {
      if (const Series* named = in_groups[place].series) {
        baseline = named;
      } else if (const Series* elsewhere = in_experiments[place.first].series) {
        baseline = elsewhere;
      }
    }
  }
  for (Series& series : all) series.baseline = baselines[place_of_group(series)];
}

}  // namespace fsdp
