// Finds results of a class that differ from most others in settings, versions or machines.
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "contract/spec/run_spec_yaml.h"
#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"

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

using Difference = std::pair<std::string, const ComparisonRow*>;  // its text and its run

// "bob, carol (4xDDP)": names a person's points unless `runs` has all runs of the person. `all` are
// the runs with a result.
std::string persons_in_words(const Runs& runs, const Runs& all) {
  const auto by_person = [](const ComparisonRow* run) { return person_of(*run); };
  std::vector<std::string> names;
  for (const auto& [name, own] : grouped(runs, by_person)) {
    const bool has_others = std::cmp_less(own.size(), std::ranges::count(all, name, by_person));
    const auto points = own | std::views::transform(&ComparisonRow::point);
    names.push_back(name + (has_others ? fmt::format(" ({})", joined_names(points)) : ""));
  }
  return joined_texts(names, ", ");
}

// Returns a line for each kind of difference.
DifferingRows lines_of(const std::vector<Difference>& found, const Runs& all) {
  constexpr size_t kMostLines = 12;
  DifferingRows differing;
  for (const auto& [what, run] : found) differing.runs.insert(run);
  const auto by_kind = grouped(found, &Difference::first);
  for (const auto& [what, alike] : by_kind | std::views::take(kMostLines)) {
    const Runs runs = mapped(alike, &Difference::second);
    differing.lines.push_back(fmt::format("* {}: {}.", what, persons_in_words(runs, all)));
  }
  if (by_kind.size() > kMostLines) {
    differing.lines.push_back(
        fmt::format("* And {} more differences. `fsdp-run diff` shows all differences of two runs.",
                    by_kind.size() - kMostLines));
  }
  return differing;
}

void add_origins(std::vector<Difference>& found, const Runs& runs) {
  for (const auto& [label, value] : kOrigins) {
    const ComparisonRow* most = most_common(runs, value);
    for (const ComparisonRow* run : runs) {
      if ((run->*value).empty() || run->*value == most->*value) continue;
      const bool is_its_device =
          value == &ComparisonRow::cpu_name && run->cpu_name == run->device_name;
      if (is_its_device) continue;
      found.emplace_back(fmt::format("{} {}, not {}", label, run->*value, most->*value), run);
    }
  }
}

// Adds differences in settings. Runs of one point have the same settings if their hashes are equal.
void add_settings(std::vector<Difference>& found, const Runs& runs_of_point) {
  const ComparisonRow* most = most_common(runs_of_point, &ComparisonRow::hash8);
  for (const ComparisonRow* run : runs_of_point) {
    if (run->hash8.empty() || run->hash8 == most->hash8) continue;
    const Keys changed = changed_keys(most->spec, run->spec, Effect::kHowOnly);
    for (const auto& [key, value] : changed) {
      const std::string usual = find_run_spec_key(key)->yaml(most->spec);
      found.emplace_back(fmt::format("{} {}, not {}", key, value, usual), run);
    }
    const bool has_other_files = run->data_digest != most->data_digest;
    if (has_other_files) found.emplace_back("other input files", run);
    if (changed.empty() && !has_other_files) found.emplace_back("other settings", run);
  }
}

}  // namespace

std::string own_experiment(const ComparisonRow& run) {
  const bool is_merged = !run.source.empty() && run.experiment.starts_with(run.source + '/');
  return is_merged ? run.experiment.substr(run.source.size() + 1) : run.experiment;
}

std::string person_of(const ComparisonRow& run) { return run.source.empty() ? "here" : run.source; }

bool has_result(const RunRow& row) {
  return row.series->finished_count > 0 || row.run->status == RunStatus::kOutOfMemory;
}

DifferingRows differing_rows(const std::vector<RunRow>& rows) {
  std::set<std::string> persons;
  Runs all;
  for (const RunRow& row : rows) {
    persons.insert(row.run->source);
    if (has_result(row)) all.push_back(row.run);
  }
  if (persons.size() < 2) return {};
  std::map<std::string, Runs> by_experiment;
  std::map<std::pair<std::string, std::string>, Runs> by_point;
  for (const ComparisonRow* run : all) {
    by_experiment[own_experiment(*run)].push_back(run);
    by_point[{own_experiment(*run), run->point}].push_back(run);
  }
  std::vector<Difference> found;
  for (const auto& [experiment, runs] : by_experiment) add_origins(found, runs);
  for (const auto& [point, runs] : by_point) add_settings(found, runs);
  for (const RunRow& row : rows) {
    if (is_disturbed(*row.series)) found.emplace_back("a busy host", row.run);
  }
  return lines_of(found, all);
}

}  // namespace fsdp
