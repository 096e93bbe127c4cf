#include "runner/run/run_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/system/cgroups.h"
#include "base/system/log.h"
#include "base/text/config_error.h"
#include "contract/record/exit_code.h"
#include "formats/inputs/inputs.h"
#include "runner/run/planned_runs.h"

namespace fsdp {
namespace {

constexpr std::string_view kMemoryLimit = ", memory limit ";

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct DeviceAndLimit {
  std::string_view device;
  int64_t limit_mib = kNoLimit;
};

DeviceAndLimit parts_of(std::string_view device_kind) {
  const size_t found = device_kind.rfind(kMemoryLimit);
  DeviceAndLimit parts{.device = device_kind.substr(0, found)};
  if (found == std::string_view::npos) return parts;
  const std::string_view limit = device_kind.substr(found + kMemoryLimit.size());
  std::from_chars(limit.data(), limit.data() + limit.size(), parts.limit_mib);
  return parts;
}

}  // namespace

std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds) {
  return with_memory_limit(spec.device == DeviceKind::kCuda ? gpu_kinds : "cpu",
                           cgroup_memory_limit_bytes());
}

std::string with_memory_limit(const std::string& kind, std::optional<int64_t> limit_bytes) {
  if (!limit_bytes) return kind;
  return fmt::format("{}{}{} MiB", parts_of(kind).device, kMemoryLimit, *limit_bytes >> 20);
}

std::optional<int64_t> memory_limit_mib(std::string_view device_kind) {
  const int64_t limit_mib = parts_of(device_kind).limit_mib;
  return limit_mib == kNoLimit ? std::nullopt : std::optional(limit_mib);
}

bool runs_out_on(const std::string& device_kind, const RunSpec& spec, const RanOut& before) {
  const DeviceAndLimit then = parts_of(before.device_kind);
  const DeviceAndLimit now = parts_of(device_kind);
  if (then.device != now.device) return false;
  const int64_t own_mib = memory_limit_bytes(spec) >> 20;  // per rank
  const bool is_of_own =
      spec.device == DeviceKind::kCuda || (own_mib > 0 && own_mib <= then.limit_mib);
  if (before.was_reported_by_rank && is_of_own) return true;
  const bool is_known = before.was_reported_by_rank || then.limit_mib != kNoLimit;
  return is_known && now.limit_mib <= then.limit_mib;
}

bool are_of_one_device(std::string_view one, std::string_view other) {
  return parts_of(one).device == parts_of(other).device;
}

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
    const bool is_outdated =
        other.status == RunStatus::kFinished && !finishes_here(other, run.spec);
    if (is_outdated) other.status = RunStatus::kPlanned;
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
  if (record && record->status == RunStatus::kFinished && finishes_here(*record, run.spec)) {
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

// Returns the family's run of the smallest value that would run out of memory here as well.
std::optional<KnownOutOfMemory> RunPlanner::known_out_of_memory(const RunRecord& run) const {
  for (KnownOutOfMemory& known : store_.known_out_of_memory(run.family)) {
    if (runs_out_here(run.spec, known.run, known.attempt, known.device_kind)) return known;
  }
  return std::nullopt;
}

// True if a run with this specification would run out of memory here as well. `attempt` of the
// earlier run `run` ran out of memory on `device_kind`.
bool RunPlanner::runs_out_here(const RunSpec& spec, int64_t run, int attempt,
                               const std::string& device_kind) const {
  const bool was_reported_by_rank =
      std::ranges::any_of(store_.rank_ends(run, attempt), [](const RankEnd& end) {
        return end.kind == RankEndKind::kFailed &&
               end.exit_code == static_cast<int64_t>(ExitCode::kOutOfMemory);
      });
  return runs_out_on(settings_.device_kind(spec), spec, {device_kind, was_reported_by_rank});
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

// True if the run's out-of-memory result still counts. It does not if the run may fit here, in a
// job or container with more memory. A result from another device always counts.
bool RunPlanner::ran_out_here(const RunRecord& record, const RunSpec& spec) const {
  if (!settings_.device_kind) return true;
  const std::vector<AttemptRecord> attempts = store_.attempts(record.id);
  const auto ran_out = std::ranges::find(attempts.rbegin(), attempts.rend(),
                                         RunStatus::kOutOfMemory, &AttemptRecord::status);
  if (ran_out == attempts.rend()) return true;
  const std::string& there = ran_out->device_kind;
  const bool is_on_this = spec.device == DeviceKind::kCpu
                              ? there.starts_with("cpu")
                              : are_of_one_device(there, settings_.device_kind(spec));
  return !is_on_this || runs_out_here(spec, record.id, ran_out->attempt, there);
}

// True unless the run finished with more memory of its host than there is now.
bool RunPlanner::finishes_here(const RunRecord& record, const RunSpec& spec) const {
  if (!settings_.device_kind || spec.device != DeviceKind::kCpu) return true;
  const std::string here = settings_.device_kind(spec);
  const std::optional<int64_t> limit_mib = memory_limit_mib(here);
  const std::vector<AttemptRecord> attempts = store_.attempts(record.id);
  const auto finished = std::ranges::find(attempts.rbegin(), attempts.rend(), RunStatus::kFinished,
                                          &AttemptRecord::status);
  if (!limit_mib || finished == attempts.rend()) return true;
  const std::optional<int64_t> had_mib = memory_limit_mib(finished->device_kind);
  return !are_of_one_device(finished->device_kind, here) || (had_mib && *had_mib <= *limit_mib);
}

// Returns whether to launch the run. Records an out-of-memory result if the run is known not to
// fit.
bool RunPlanner::decide(const Step& step, const RunRecord& record) {
  const bool has_result =
      record.status == RunStatus::kFinished ||
      (record.status == RunStatus::kOutOfMemory && ran_out_here(record, step.run.spec));
  switch (step.decision) {
    case Decision::kLaunch:
      return true;
    case Decision::kLaunchUnlessResult:
      return settings_.rerun || !has_result;
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
