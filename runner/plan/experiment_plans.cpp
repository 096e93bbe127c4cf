#include "runner/plan/experiment_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/experiment/doubling_series.h"
#include "runner/plan/plan_report.h"

namespace fsdp {
namespace {

std::optional<double> hours_of(const RunSpec& spec, const RunPlan& plan) {
  constexpr double kMillisecondsPerHour = 3.6e6;
  if (!is_calibrated(plan) || !spec.train.steps) return std::nullopt;
  const auto steps = static_cast<double>(planned_steps(spec, /*steps_per_epoch=*/1));
  return steps * *plan.step_time_ms / kMillisecondsPerHour;
}

// Returns a warning if the GPU is known to have no hardware for the run's precision. Empty: none.
std::string precision_note(const RunSpec& spec, const DeviceForRuns& device) {
  constexpr int64_t kFirstWithBf16 = 80;
  const int64_t capability = device.device.compute_capability;
  const bool has_bf16 = capability == 0 || capability >= kFirstWithBf16;
  if (has_bf16 || spec.precision.compute() != Dtype::kBf16) return "";
  return fmt::format(
      "{} has no hardware for bf16: its compute capability is {:.1f}, and bf16 needs 8.0. Products "
      "run there without tensor cores. Set precision: fp16_mixed.",
      device.device.name.empty() ? device.name : device.device.name,
      static_cast<double>(capability) / 10);
}

// Values of a key that do not fit, and the reasons: "" for memory, else what refuses the value.
using TooLarge = std::map<int64_t, std::string>;

// Returns the smallest value that needs too much memory; nullopt if memory limits nothing.
std::optional<int64_t> limit_of_memory(const TooLarge& above) {
  const auto found = std::ranges::find(above, "", &TooLarge::value_type::second);
  return found == above.end() ? std::nullopt : std::optional(found->first);
}

// Returns a sentence about the largest value of `key` that fits. `problem` is the error, if any,
// for twice that value, which has the same divisors.
std::string bound_note(const std::string& series, const std::string& key,
                       std::optional<int64_t> largest, const TooLarge& above,
                       const std::string& problem) {
  const std::string which = largest
                                ? fmt::format("{}: largest {} that fits: {}", series, key, *largest)
                                : fmt::format("{}: no value of {} fits", series, key);
  if (const auto value = limit_of_memory(above)) {
    return largest ? fmt::format("{} ({} does not).", which, *value)
                   : fmt::format("{}: {} {} does not fit.", series, key, *value);
  }
  const std::string& why = problem.empty() && !above.empty() ? above.begin()->second : problem;
  if (why.empty()) return which + ". The key allows no larger value.";
  return fmt::format("{}. The run allows no larger value, although memory may: {}.", which, why);
}

// Returns the run with this value of `key`. Throws ConfigError if it cannot have the value.
Run run_with(const Expansion& expansion, const Run& run, const std::string& key, int64_t value) {
  return run.doubling && run.doubling->key() == key
             ? doubled_run(run.doubling, value)
             : expansion.variant(run, {fmt::format("{}={}", key, value)});
}

PlannedRow without_plan(const Run& run, const std::string& suffix, std::string problem) {
  return {.point = run.series + suffix,
          .spec = run.spec,
          .device = {},
          .plan = {},
          .problem = std::move(problem)};
}

}  // namespace

ExperimentPlans::ExperimentPlans(const Expansion& expansion, std::optional<Host> host,
                                 PlanTarget target, const std::filesystem::path& trainer,
                                 const std::filesystem::path& results)
    : expansion_(expansion),
      host_(std::move(host)),
      target_(std::move(target)),
      planner_(trainer, std::filesystem::absolute(results)) {}

DeviceForRuns ExperimentPlans::device_of(const RunSpec& spec) const {
  return planned_device(target_, expansion_, spec, host_);
}

PlannedRow ExperimentPlans::plan(const Run& run, const std::string& suffix) {
  PlannedRow row = without_plan(run, suffix, "");
  try {
    const DeviceForRuns device = device_of(run.spec);
    row.device = device.name;
    row.plan = planner_.plan(run.spec, device);
    row.hours = hours_of(run.spec, *row.plan);
    if (std::string note = precision_note(run.spec, device); !note.empty()) {
      row.notes.push_back(std::move(note));
    }
  } catch (const ConfigError& error) {
    row.problem = error.what();
  }
  return row;
}

PlannedRow ExperimentPlans::plan_with(const Run& run, const std::vector<std::string>& set,
                                      const std::string& suffix) {
  try {
    return plan(expansion_.variant(run, set), suffix);
  } catch (const ConfigError& error) {
    return without_plan(run, suffix, error.what());
  }
}

PlannedRow ExperimentPlans::plan_value(const Run& run, const std::string& key, int64_t value,
                                       const std::string& suffix) {
  const bool is_in_name = run.doubling && run.doubling->key() == key;
  try {
    return plan(run_with(expansion_, run, key, value), is_in_name ? "" : suffix);
  } catch (const ConfigError& error) {
    return without_plan(run, suffix, error.what());
  }
}

PlannedRow ExperimentPlans::plan_largest(const Run& run, const std::string& key) {
  PlannedRow given = plan(run);
  if (!given.plan) return given;
  if (given.plan->fit == Fit::kUnknown) {
    throw ConfigError("--max", key,
                      "needs to know how much memory there is; name the GPU with --gpu, or set "
                      "memory_limit_gib");
  }
  const auto row_of = [&](int64_t value) {
    return plan_value(run, key, value, fmt::format(" {}={}", key, value));
  };
  std::optional<PlannedRow> row_of_largest;
  TooLarge above;
  const auto fits_at = [&](int64_t value) {
    PlannedRow row = row_of(value);
    const ValueFit fit = row.plan ? value_fit(*row.plan, row.spec, key) : ValueFit::kDoesNotFit;
    if (fit == ValueFit::kFits) {
      row_of_largest = std::move(row);
    } else {
      above[value] = row.problem;
    }
    return fit;
  };
  const NextValid next_valid =
      next_valid_by([&](int64_t value) { run_with(expansion_, run, key, value); },
                    widest_gap(run.spec), static_cast<int64_t>(range_of_key(key).maximum));
  std::optional<int64_t> largest;
  if (const auto first = next_valid(1)) {
    largest = largest_that_fits(Doubling({.from = *first, .to = {}, .refine = true}, next_valid),
                                fits_at);
  }
  above.erase(above.begin(), above.upper_bound(largest.value_or(0)));
  PlannedRow row = row_of_largest ? std::move(*row_of_largest) : row_of(1);
  const std::string problem = limit_of_memory(above) ? "" : row_of(2 * largest.value_or(1)).problem;
  row.notes.push_back(bound_note(run.series, key, largest, above, problem));
  return row;
}

PlannedRow ExperimentPlans::plan_expected(const Run& run) {
  const std::optional<int64_t> largest =
      run.doubling->expected_largest([&](const RunSpec& spec) -> std::optional<RunPlan> {
        return planner_.plan(spec, device_of(spec));
      });
  return plan(largest ? doubled_run(run.doubling, *largest) : run);
}

void ExperimentPlans::add_timeline(PlannedRow& row) {
  if (!row.plan) return;
  row.plan = planner_.plan(row.spec, device_of(row.spec), /*timeline=*/true);
}

std::vector<Run> first_repeats(const Expansion& expansion) {
  std::vector<Run> runs;
  std::ranges::copy_if(expansion.runs, std::back_inserter(runs),
                       [](const Run& run) { return run.repeat == 0; });
  return runs;
}

}  // namespace fsdp
