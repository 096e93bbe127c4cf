#include <algorithm>
#include <map>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/report/series.h"

namespace fsdp {
namespace {

// The way in which a name matches a series. The smallest one is preferred.
enum class Match { kName, kRunOfIt, kBeginning, kNone };

Match match(const Series& series, const std::string& name) {
  const std::string& own = series.median.point;
  if (name.empty()) return Match::kNone;
  if (own == name) return Match::kName;
  if (std::ranges::count(series.runs, name, &ComparisonRow::point) > 0) return Match::kRunOfIt;
  return own.starts_with(name + ' ') ? Match::kBeginning : Match::kNone;
}

struct Candidate {
  const Series* series = nullptr;
  Match how = Match::kNone;

  void consider(const Series& other, Match how_other) {
    if (how_other < how) *this = {&other, how_other};
  }
};

}  // namespace

void put_baselines(std::deque<Series>& all, const std::string& name) {
  using Place = std::pair<std::string, std::string>;  // an experiment and the group in it
  std::map<Place, Candidate> finished, named;
  std::map<std::string, Candidate> named_elsewhere;
  std::vector<std::string> names;
  bool is_known = name.empty() || all.empty();
  for (const Series& series : all) {
    const Place place{series.median.experiment, series.group};
    const Match how = match(series, name);
    finished[place].consider(series, series.finished_count > 0 ? Match::kName : Match::kNone);
    named[place].consider(series, how);
    named_elsewhere[place.first].consider(series, how);
    is_known = is_known || how != Match::kNone;
    names.push_back(series.median.point);
  }
  if (!is_known) {
    throw ConfigError("--baseline", "",
                      "there is no point '" + name + "'" + suggestion(name, names));
  }
  for (Series& series : all) {
    const Place place{series.median.experiment, series.group};
    series.baseline = named[place].series;
    if (!series.baseline) series.baseline = named_elsewhere[place.first].series;
    if (!series.baseline) series.baseline = finished[place].series;
  }
}

}  // namespace fsdp
