// Decides which runs are launched. After a run has ended, the next choice needs no index.
#include "runner/run/run_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/system/log.h"
#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "formats/inputs/inputs.h"
#include "runner/run/planned_runs.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_files.h"

namespace fsdp {
namespace {

bool is_same_run(const RunRecord& one, const RunRecord& other) {
  return std::tie(one.experiment, one.point, one.hash) ==
         std::tie(other.experiment, other.point, other.hash);
}

// Returns the number that the index would give to the run.
int64_t number_of(const RunRecord& run, const std::filesystem::path& results) {
  int64_t largest = 0;
  for (const std::filesystem::path& folder : run_folders(results)) {
    const auto known = read_run(results, folder, [](const std::string&) {});
    if (known && is_same_run(*known, run)) return known->id;
    if (known) largest = std::max(largest, known->id);
  }
  return largest + 1;
}

// True if another run has the folder. The index finds a free one.
bool is_taken(const std::filesystem::path& results, const RunRecord& run) {
  const auto other = read_run(results, run.folder, [](const std::string&) {});
  return other && !is_same_run(*other, run);
}

// Gives a run a status without an attempt.
void write_status(const std::filesystem::path& results, const std::filesystem::path& folder,
                  RunStatus status, const std::string& reason) {
  const RunPaths paths(results / folder);
  StatusNote note{.status = status, .reason = reason};
  for (const int attempt : attempts_with_folder(paths)) {
    note.attempts_begun += std::filesystem::exists(paths.launch_record(attempt)) ? 1 : 0;
    note.attempts_ended += std::filesystem::exists(verdict_file(paths, attempt)) ? 1 : 0;
  }
  write_status(paths, note);
}

}  // namespace

bool ValueSearch::take_result(const RunRecord& ended, RunStatus status) {
  if (status == RunStatus::kFinished) search.fits(*ended.family_value);
  if (status == RunStatus::kOutOfMemory) search.does_not_fit(*ended.family_value);
  return is_result(status);
}

std::optional<RunRecord> next_to_launch(ValueSearch& series, const KnownValues& known) {
  const std::string& key = series.doubling->key();
  while (const std::optional<int64_t> value = series.search.next()) {
    try {
      RunRecord run = known.run_of(*value);
      if (const std::optional<bool> fits = known.fits(run)) {
        *fits ? series.search.fits(*value) : series.search.does_not_fit(*value);
        continue;
      }
      if (series.most && *value > *series.most) {
        known.say(fmt::format("{}={} is not run: it is predicted not to fit (--skip-oversized)",
                              key, *value));
        break;
      }
      if (series.checked && !reads_the_same(run.spec, *series.checked)) {
        check_inputs(run.spec);
        series.checked = run.spec;
      }
      return run;
    } catch (const ConfigError& error) {
      if (series.checked) {
        known.say(fmt::format("{}={} cannot be run, so the search ends here: {}", key, *value,
                              error.what()));
      }
      break;
    }
  }
  return std::nullopt;
}

RunPlanner::RunPlanner(Store& store, FileDigest digest, Settings settings)
    : store_(store), digest_(std::move(digest)), settings_(std::move(settings)) {}

std::vector<RunRecord> RunPlanner::plan(const ExperimentRecord& record, const Expansion& expansion,
                                        std::vector<RunRecord> chosen,
                                        std::vector<RunRecord> left_out) {
  list_ = record.name;
  series_.clear();
  families_.clear();
  std::vector<Step> steps;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto& doubling = expansion.runs[i].doubling;
    if (!doubling) {
      steps.push_back({std::move(chosen[i])});
      continue;
    }
    std::ranges::move(begin({doubling, doubling->search(), std::move(chosen[i].spec)}),
                      std::back_inserter(steps));
  }
  std::vector<RunRecord> planned;
  for (const Step& step : steps) planned.push_back(step.run);
  std::ranges::move(left_out, std::back_inserter(planned));
  // The values of doubled keys that --only leaves out stay in the list, and are not launched.
  for (const Run& run : expansion.left_out) {
    if (!run.doubling) continue;
    for (Step& step : begin({run.doubling, run.doubling->search(), {}})) {
      planned.push_back(std::move(step.run));
    }
  }
  std::vector<RunRecord> records = store_.plan(record, planned);
  std::vector<RunRecord> runs;
  for (size_t i = 0; i < steps.size(); ++i) {
    pass_over(steps[i], records[i]);
    if (auto run = launched(std::move(steps[i]), std::move(records[i]))) {
      runs.push_back(std::move(*run));
    }
  }
  with_result_ = std::ssize(steps) - std::ssize(runs);
  return runs;
}

bool RunPlanner::follows_from_ended(int64_t run) const {
  const auto found = series_.find(run);
  return found != series_.end() && found->second.search.has_begun();
}

std::optional<SearchState> RunPlanner::search_of(const RunRecord& run) const {
  const auto found = series_.find(run.id);
  if (found == series_.end()) return std::nullopt;
  const ValueSearch& series = found->second;
  SearchState state{.expected = series.search.expected(),
                    .largest_that_fits = series.search.largest_that_fits(),
                    .smallest_that_does_not_fit = series.search.smallest_that_does_not_fit(),
                    .most = series.most,
                    .begins_anew = begins_anew(series)};
  if (const RunRecord* known = smallest_out_of_memory(run)) state.too_large = known->family_value;
  for (const RunOfFamily& other : families_.at(run.family)) {
    if (other.run.experiment == list_) state.known.push_back(other.run);
  }
  return state;
}

std::optional<RunRecord> RunPlanner::after(const RunRecord& ended, RunStatus status) {
  const auto found = series_.find(ended.id);
  if (found == series_.end()) return std::nullopt;
  ValueSearch series = found->second;
  if (!series.take_result(ended, status)) return std::nullopt;
  note_result(ended, status);
  for (Step& step : walk(std::move(series))) {
    RunRecord record = add(step);
    if (auto next = launched(std::move(step), std::move(record))) return next;
  }
  return std::nullopt;
}

// A finished run that is launched has a result that does not count, so its checkpoints do not,
// either.
bool RunPlanner::begins_anew(const RunRecord& run) const {
  return settings_.rerun || run.status == RunStatus::kFinished;
}

// True if results of earlier runs do not count.
bool RunPlanner::begins_anew(const ValueSearch& series) const {
  return settings_.rerun && series.checked;
}

std::vector<RunOfFamily>& RunPlanner::family(const std::string& name) {
  const auto [found, is_new] = families_.try_emplace(name);
  if (is_new) found->second = store_.runs_of_family(name);
  return found->second;
}

// Returns the value's run, with its record if there is one.
RunRecord RunPlanner::run_of(const ValueSearch& series, int64_t value) {
  RunRecord run = planned_run(list_, doubled_run(series.doubling, value), digest_);
  run.experiment = list_;
  for (const auto& [known, ran_out_on] : family(run.family)) {
    if (!is_same_run(known, run)) continue;
    run.id = known.id;
    run.folder = known.folder;
    run.status = known.status;
    run.reason = known.reason;
    run.attempt = known.attempt;
  }
  return run;
}

// Returns the steps of the values with results, then the steps to the next launch.
std::vector<RunPlanner::Step> RunPlanner::begin(ValueSearch series) {
  std::vector<Step> steps = recorded_steps(series);
  if (series.search.next()) expect(series);
  std::ranges::move(walk(std::move(series)), std::back_inserter(steps));
  return steps;
}

// Returns the steps of the values with results, if the search refines its range to find the largest
// value. A range that is not refined is walked from its start.
std::vector<RunPlanner::Step> RunPlanner::recorded_steps(ValueSearch& series) {
  std::vector<Step> steps;
  if (!series.doubling->is_refined() || begins_anew(series)) return steps;
  std::set<int64_t> values;
  for (const auto& [run, ran_out_on] : family(series.doubling->family(digest_))) {
    if (run.experiment == list_ && is_result(run.status)) values.insert(*run.family_value);
  }
  for (const int64_t value : values) {
    if (!series.doubling->is_in_range(value)) continue;
    try {
      Step known{run_of(series, value), /*is_passed_over=*/true};
      const std::optional<bool> fits = is_known_to_fit(known);
      if (!fits) continue;
      *fits ? series.search.fits(value) : series.search.does_not_fit(value);
      steps.push_back(std::move(known));
    } catch (const ConfigError&) {  // the key no longer allows the value
    }
  }
  return steps;
}

// Sets the expected largest value. A refined search begins there. With --skip-oversized, nothing
// above it is launched.
void RunPlanner::expect(ValueSearch& series) const {
  const bool is_refined = series.doubling->is_refined();
  if (!settings_.predict || (!is_refined && !settings_.skip_oversized)) return;
  const auto expected = series.doubling->expected_largest(settings_.predict);
  if (settings_.skip_oversized) series.most = expected;
  if (!expected || !is_refined) return;
  series.search.expect_to_be_largest(*expected);
  const int64_t saved = runs_saved(series.doubling->search(), *expected);
  if (series.checked && !series.search.has_begun() && saved > 0) {
    settings_.say(
        fmt::format("{}: {} is predicted to be the largest that fits; beginning there "
                    "saves {} run{}",
                    series.doubling->key(), *expected, saved, saved == 1 ? "" : "s"));
  }
}

// Returns the steps from the present state of the search to its next launch, or to its end.
std::vector<RunPlanner::Step> RunPlanner::walk(ValueSearch series) {
  std::vector<Step> steps;
  const auto fits = [&](const RunRecord& run) {
    Step step{run, /*is_passed_over=*/true};
    const auto fits = begins_anew(series) ? std::nullopt : is_known_to_fit(step);
    if (fits) steps.push_back(std::move(step));
    return fits;
  };
  auto next =
      next_to_launch(series, {.run_of = [&](int64_t value) { return run_of(series, value); },
                              .fits = fits,
                              .say = settings_.say});
  if (next) steps.push_back({.run = std::move(*next), .search = std::move(series)});
  return steps;
}

// Returns whether the run of a passed-over step fits, and sets the reason. nullopt: the run has to
// be launched.
std::optional<bool> RunPlanner::is_known_to_fit(Step& step) const {
  const RunRecord& run = step.run;
  if (run.status == RunStatus::kFinished) return true;
  const RunRecord* known = smallest_out_of_memory(run);
  if (!known || known->family_value > run.family_value) return std::nullopt;
  const bool ran_out = run.status == RunStatus::kOutOfMemory && run.attempt > 0;
  const std::string reason = fmt::format(
      "not launched: {}={} ran out of memory ('{}' of the experiment '{}'); --rerun launches it",
      run.family_key, *known->family_value, known->point, known->experiment);
  if (!ran_out && reason != run.reason) step.reason = reason;
  return false;
}

// Returns the family's run of the smallest value that ran out of memory on the same devices, or
// null.
const RunRecord* RunPlanner::smallest_out_of_memory(const RunRecord& run) const {
  const std::string devices = settings_.device_kind(run.spec);
  const RunRecord* smallest = nullptr;
  for (const auto& [other, ran_out_on] : families_.at(run.family)) {
    if (ran_out_on != devices) continue;
    if (!smallest || other.family_value < smallest->family_value) smallest = &other;
  }
  return smallest;
}

// Other searches in the family learn of a result, too.
void RunPlanner::note_result(const RunRecord& ended, RunStatus status) {
  std::vector<RunOfFamily>& runs = family(ended.family);
  std::erase_if(runs, [&](const RunOfFamily& known) { return is_same_run(known.run, ended); });
  RunOfFamily& noted = runs.emplace_back(
      ended, status == RunStatus::kOutOfMemory ? settings_.device_kind(ended.spec) : "");
  noted.run.status = status;
}

std::optional<RunRecord> RunPlanner::launched(Step step, RunRecord record) {
  const bool is_wanted = step.search || settings_.rerun || !is_result(record.status);
  const bool is_launched = is_wanted && !step.is_passed_over;
  log(LogLevel::kInfo, "plan",
      fmt::format("{}/{} {}: {}, is {}", record.experiment, record.point, record.hash.substr(0, 8),
                  is_launched ? "to run" : "kept", name_of(record.status)));
  if (!is_launched) return std::nullopt;
  if (step.search) series_.insert_or_assign(record.id, std::move(*step.search));
  record.begins_anew = begins_anew(record);
  return record;
}

// Records an out-of-memory result of a run that is known not to fit.
void RunPlanner::pass_over(const Step& step, const RunRecord& record) {
  if (step.reason.empty()) return;
  store_.record_status(record.id, RunStatus::kOutOfMemory, step.reason);
  settings_.say(record.point + ": " + step.reason);
}

RunRecord RunPlanner::add(const Step& step) {
  try {
    store_.sync(only_in_files_);
    only_in_files_.clear();
    RunRecord record = store_.plan_one_more(list_, step.run);
    pass_over(step, record);
    return record;
  } catch (const ResultsUnavailable&) {
    if (settings_.results.empty() || is_taken(settings_.results, step.run)) throw;
    return add_to_files(step);
  }
}

// Adds a run without the index, which reads the files later.
RunRecord RunPlanner::add_to_files(const Step& step) {
  const std::filesystem::path& results = settings_.results;
  RunRecord record = step.run;
  if (record.id == 0) record.id = number_of(record, results);
  write_run(results, record);
  if (!step.reason.empty()) {
    write_status(results, record.folder, RunStatus::kOutOfMemory, step.reason);
    settings_.say(record.point + ": " + step.reason);
  }
  add_to_list(results, list_, record.folder, settings_.say);
  only_in_files_.insert(record.folder);
  return record;
}

}  // namespace fsdp
