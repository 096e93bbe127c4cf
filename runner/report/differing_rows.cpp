#include "runner/report/differing_rows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "runner/report/changed_keys.h"
#include "runner/report/names.h"

namespace fsdp {
namespace {

struct Origin {
  const char* label;
  std::string ComparisonRow::*value;  // empty: not known
};

constexpr Origin kOrigins[] = {
    {"fsdp-run", &ComparisonRow::runner_version}, {"PyTorch", &ComparisonRow::torch_version},
    {"CUDA", &ComparisonRow::cuda_version},       {"driver", &ComparisonRow::driver_version},
    {"device", &ComparisonRow::device_name},      {"CPU", &ComparisonRow::cpu_name}};

// Returns the first run with the most common value; null: no value is known.
const ComparisonRow* most_common(const Runs& runs, std::string ComparisonRow::*value) {
  std::map<std::string, size_t> counts;
  for (const ComparisonRow* run : runs) {
    if (!(run->*value).empty()) ++counts[run->*value];
  }
  const auto most = std::ranges::max_element(
      runs, {}, [&](const ComparisonRow* run) { return counts[run->*value]; });
  return counts.empty() ? nullptr : *most;
}

// Collects differences, each with its rows.
class Differences {
 public:
  void add(const std::string& what, const ComparisonRow& run) {
    const auto found = std::ranges::find(differences_, what, &Difference::what);
    Difference& difference = found == differences_.end() ? differences_.emplace_back(what) : *found;
    difference.runs.push_back(&run);
  }

  // Returns the differences as lines. `all` are the rows with a result.
  DifferingRows told(const Runs& all) const {
    constexpr size_t kMostLines = 12;
    DifferingRows told;
    for (const Difference& difference : differences_) {
      told.runs.insert(difference.runs.begin(), difference.runs.end());
      if (told.lines.size() == kMostLines) continue;
      told.lines.push_back(fmt::format("* {}: {}.", difference.what,
                                       fmt::join(persons(difference.runs, all), ", ")));
    }
    if (differences_.size() > kMostLines) {
      told.lines.push_back(
          fmt::format("* And {} more differences; `fsdp-run diff` shows those of "
                      "two runs.",
                      differences_.size() - kMostLines));
    }
    return told;
  }

 private:
  struct Difference {
    std::string what;
    Runs runs{};
  };

  // "bob, carol (4xDDP)": points are named unless they are all points of the person.
  static std::vector<std::string> persons(const Runs& runs, const Runs& all) {
    std::vector<std::string> names;
    std::map<std::string, std::vector<std::string>> points;
    for (const ComparisonRow* run : runs) {
      const std::string name = person_of(*run);
      if (!points.contains(name)) names.push_back(name);
      points[name].push_back(run->point);
    }
    for (std::string& name : names) {
      const auto count = std::ranges::count(all, name, [](auto* run) { return person_of(*run); });
      if (std::cmp_less(points[name].size(), count)) {
        name += fmt::format(" ({})", joined_names(points[name]));
      }
    }
    return names;
  }

  std::vector<Difference> differences_;
};

void add_origins(Differences& differences, const Runs& runs) {
  for (const auto& [label, value] : kOrigins) {
    const ComparisonRow* most = most_common(runs, value);
    for (const ComparisonRow* run : runs) {
      if ((run->*value).empty() || run->*value == most->*value) continue;
      const bool is_told = value == &ComparisonRow::cpu_name && run->cpu_name == run->device_name;
      if (is_told) continue;  // reported as its device
      differences.add(fmt::format("{} {}, not {}", label, run->*value, most->*value), *run);
    }
  }
}

// Adds differences in settings. Runs of one point have the same settings if their hashes are equal.
void add_settings(Differences& differences, const Runs& runs_of_point) {
  const ComparisonRow* most = most_common(runs_of_point, &ComparisonRow::hash8);
  Keys usual;
  for (const ComparisonRow* run : runs_of_point) {
    if (run->hash8.empty() || run->hash8 == most->hash8) continue;
    if (usual.empty()) usual = keys_beyond(Effect::kHowOnly, *most);
    const Keys changed = changed_keys(usual, keys_beyond(Effect::kHowOnly, *run));
    for (const auto& [key, value] : changed) {
      differences.add(fmt::format("{} {}, not {}", key, value, usual.at(key)), *run);
    }
    const bool has_other_files = run->data_digest != most->data_digest;
    if (has_other_files) differences.add("other input files", *run);
    if (changed.empty() && !has_other_files) differences.add("other settings", *run);
  }
}

}  // namespace

std::string own_experiment(const ComparisonRow& run) {
  const bool is_merged = !run.source.empty() && run.experiment.starts_with(run.source + '/');
  return is_merged ? run.experiment.substr(run.source.size() + 1) : run.experiment;
}

std::string person_of(const ComparisonRow& run) { return run.source.empty() ? "here" : run.source; }

bool has_result(const ReportRow& row) {
  return row.series->finished_count > 0 || row.run->status == RunStatus::kOutOfMemory;
}

DifferingRows differing_rows(const std::vector<ReportRow>& rows) {
  std::set<std::string> persons;
  Runs all;
  std::map<std::string, Runs> by_experiment;
  std::map<std::pair<std::string, std::string>, Runs> by_point;
  for (const ReportRow& row : rows) {
    persons.insert(row.run->source);
    if (!has_result(row)) continue;
    const std::string experiment = own_experiment(*row.run);
    all.push_back(row.run);
    by_experiment[experiment].push_back(row.run);
    by_point[{experiment, row.run->point}].push_back(row.run);
  }
  if (persons.size() < 2) return {};
  Differences differences;
  for (const auto& [experiment, runs] : by_experiment) add_origins(differences, runs);
  for (const auto& [point, runs] : by_point) add_settings(differences, runs);
  return differences.told(all);
}

}  // namespace fsdp
