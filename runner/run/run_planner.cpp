#include "runner/run/run_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "base/system/log.h"
#include "base/text/config_error.h"
#include "formats/inputs/inputs.h"
#include "runner/run/planned_runs.h"

namespace fsdp {
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
  with_result_ = 0;
  std::vector<Step> steps;
  std::map<size_t, ValueSearch> waiting;  // by the index of the awaited step
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto& doubling = expansion.runs[i].doubling;
    if (!doubling) {
      steps.push_back({std::move(chosen[i]), Decision::kLaunchUnlessResult});
      continue;
    }
    ValueSearch series{doubling, doubling->search(), std::move(chosen[i].spec)};
    std::vector<Step> walked = begin(series);
    const bool waits = !walked.empty() && walked.back().decision == Decision::kLaunch;
    std::ranges::move(walked, std::back_inserter(steps));
    if (waits) waiting.emplace(steps.size() - 1, std::move(series));
  }
  std::vector<RunRecord> planned;
  for (const Step& step : steps) planned.push_back(step.run);
  std::ranges::move(left_out, std::back_inserter(planned));
  for (Step& step : steps_left_out(expansion)) planned.push_back(std::move(step.run));

  std::vector<RunRecord> records = store_.plan(record, planned);
  std::vector<RunRecord> runs;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!is_to_launch(steps[i], records[i])) {
      ++with_result_;
      continue;
    }
    if (const auto series = waiting.find(i); series != waiting.end()) {
      series_.emplace(records[i].id, std::move(series->second));
    }
    records[i].begins_anew = begins_anew(records[i]);
    runs.push_back(std::move(records[i]));
  }
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
  if (const auto known = known_out_of_memory(run)) state.too_large = known->value;
  for (RunRecord& other : store_.runs()) {
    const bool is_of_series =
        other.experiment == list_ && other.family == run.family && other.position == run.position;
    if (!is_of_series || other.id == run.id) continue;
    state.known.push_back(std::move(other));
  }
  return state;
}

std::optional<RunRecord> RunPlanner::after(const RunRecord& ended, RunStatus status) {
  const auto found = series_.find(ended.id);
  if (found == series_.end()) return std::nullopt;
  ValueSearch series = found->second;
  if (!series.take_result(ended, status)) return std::nullopt;
  for (Step& step : walk(series)) {
    RunRecord record = store_.plan_one_more(list_, step.run);
    if (!is_to_launch(step, record)) continue;
    series_.insert_or_assign(record.id, std::move(series));
    record.begins_anew = begins_anew(record);
    return record;
  }
  return std::nullopt;
}

void RunPlanner::job_chose(const RunRecord& ended, RunRecord& chosen) {
  const auto found = series_.find(ended.id);
  if (found == series_.end()) return;
  ValueSearch series = found->second;
  series.take_result(ended, ended.status);
  chosen.begins_anew = begins_anew(series);
  series_.insert_or_assign(chosen.id, std::move(series));
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

RunRecord RunPlanner::run_of(const ValueSearch& series, int64_t value) const {
  return planned_run(list_, doubled_run(series.doubling, value), digest_);
}

// Returns the steps of the values with results, then the steps to the next launch.
std::vector<RunPlanner::Step> RunPlanner::begin(ValueSearch& series) {
  std::vector<Step> steps = recorded_steps(series);
  if (series.search.next()) expect(series);
  std::ranges::move(walk(series), std::back_inserter(steps));
  return steps;
}

// Returns the steps of the values with results, if the search refines its range to find the largest
// value. A range that is not refined is walked from its start.
std::vector<RunPlanner::Step> RunPlanner::recorded_steps(ValueSearch& series) {
  std::vector<Step> steps;
  if (!series.doubling->is_refined() || begins_anew(series)) return steps;
  const std::string family = series.doubling->family(digest_);
  for (const int64_t value : store_.values_with_result(list_, family)) {
    if (!series.doubling->is_in_range(value)) continue;
    try {
      Step known{run_of(series, value)};
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
void RunPlanner::expect(ValueSearch& series) {
  const bool is_refined = series.doubling->is_refined();
  if (!settings_.expected_value || (!is_refined && !settings_.skip_oversized)) return;
  const auto expected = settings_.expected_value(series.doubling, series.doubling->family(digest_));
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
std::vector<RunPlanner::Step> RunPlanner::walk(ValueSearch& series) {
  std::vector<Step> steps;
  const auto fits = [&](const RunRecord& run) {
    Step step{run};
    const auto fits = begins_anew(series) ? std::nullopt : is_known_to_fit(step);
    if (fits) steps.push_back(std::move(step));
    return fits;
  };
  const auto next =
      next_to_launch(series, {.run_of = [&](int64_t value) { return run_of(series, value); },
                              .fits = fits,
                              .say = settings_.say});
  if (next) steps.push_back({*next});
  return steps;
}

// Returns whether the step's run fits, and decides about the step. nullopt: it has to be launched.
std::optional<bool> RunPlanner::is_known_to_fit(Step& step) const {
  const RunRecord& run = step.run;
  const auto record = store_.recorded_run(list_, run.point, run.hash);
  if (record && record->status == RunStatus::kFinished) {
    step.decision = Decision::kKeepResult;
    return true;
  }
  const auto known = known_out_of_memory(run);
  if (!known || known->value > *run.family_value) return std::nullopt;
  const bool ran_out = record && record->status == RunStatus::kOutOfMemory && record->attempt > 0;
  step.decision = ran_out ? Decision::kKeepResult : Decision::kRecordOutOfMemory;
  step.reason = fmt::format(
      "not launched: {}={} ran out of memory ('{}' of the experiment '{}'); --rerun launches it",
      run.family_key, known->value, known->point, known->experiment);
  return false;
}

// Returns the family's run of the smallest value that ran out of memory on the same devices.
std::optional<KnownOutOfMemory> RunPlanner::known_out_of_memory(const RunRecord& run) const {
  for (KnownOutOfMemory& known : store_.known_out_of_memory(run.family)) {
    if (known.device_kind == settings_.device_kind(run.spec)) return known;
  }
  return std::nullopt;
}

// Returns the steps of doubled keys that --only leaves out. Their runs stay in the experiment's
// list, and are not launched.
std::vector<RunPlanner::Step> RunPlanner::steps_left_out(const Expansion& expansion) {
  std::vector<Step> steps;
  for (const Run& run : expansion.left_out) {
    if (!run.doubling) continue;
    ValueSearch series{run.doubling, run.doubling->search(), std::nullopt};
    std::ranges::move(begin(series), std::back_inserter(steps));
  }
  return steps;
}

bool RunPlanner::is_to_launch(const Step& step, const RunRecord& record) {
  const bool is_to_launch = decide(step, record);
  log(LogLevel::kInfo, "plan",
      fmt::format("{}/{} {}: {}, is {}", record.experiment, record.point, record.hash.substr(0, 8),
                  is_to_launch ? "to run" : "kept", name_of(record.status)));
  return is_to_launch;
}

// Returns whether to launch the run. Records an out-of-memory result if the run is known not to
// fit.
bool RunPlanner::decide(const Step& step, const RunRecord& record) {
  switch (step.decision) {
    case Decision::kLaunch:
      return true;
    case Decision::kLaunchUnlessResult:
      return settings_.rerun || !is_result(record.status);
    case Decision::kKeepResult:
      return false;
    case Decision::kRecordOutOfMemory:
      if (record.reason == step.reason) return false;
      store_.record_status(record.id, RunStatus::kOutOfMemory, step.reason);
      settings_.say(record.point + ": " + step.reason);
      return false;
  }
  return false;
}

}  // namespace fsdp
