#include "runner/plan/experiment_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contract/devices/device_table.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/largest_value.h"
#include "runner/plan/plan_report.h"

namespace fsdp {
namespace {

Expansion expand(const Experiment& experiment, ExpandOptions options, bool names_gpu,
                 const Resources& resources) {
  options.check_gpus = false;
  options.for_any_gpu = names_gpu;
  return experiment.expand(options, resources);
}

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

// The values of a key that were tried and cannot be used.
struct TriedAbove {
  std::set<int64_t> too_large;
  std::map<int64_t, std::string> refused;

  void drop_up_to(int64_t largest) {
    too_large.erase(too_large.begin(), too_large.upper_bound(largest));
    refused.erase(refused.begin(), refused.upper_bound(largest));
  }
};

// Returns a sentence about the limit of `key`. `problem` is the error, if any, for twice the
// largest value, which has the same divisors as that value.
std::string bound_note(const std::string& series, const std::string& key,
                       std::optional<int64_t> largest, const TriedAbove& above,
                       const std::string& problem) {
  const std::string which = largest ? fmt::format("{}: {} is at most {}", series, key, *largest)
                                    : fmt::format("{}: no value of {} fits", series, key);
  if (!above.too_large.empty()) {
    return fmt::format("{}. Memory is the bound: {} does not fit.", which,
                       *above.too_large.begin());
  }
  const std::string& why =
      problem.empty() && !above.refused.empty() ? above.refused.begin()->second : problem;
  if (why.empty()) return which + ". The key's range is the bound.";
  return fmt::format("{}. The run is the bound, not memory: {}.", which, why);
}

PlannedRow without_plan(const Run& run, const std::string& suffix, std::string problem) {
  return {.point = run.series + suffix,
          .spec = run.spec,
          .device = {},
          .plan = {},
          .problem = std::move(problem)};
}

}  // namespace

ExperimentPlans::ExperimentPlans(const std::filesystem::path& file, ExpandOptions options,
                                 Host host, PlanTarget target, const std::filesystem::path& trainer,
                                 const std::filesystem::path& results)
    : host_(options.on_cluster ? std::nullopt : std::optional(std::move(host))),
      target_(std::move(target)),
      experiment_(Experiment::load(file)),
      expansion_(expand(experiment_, std::move(options), target_.gpu.has_value(), resources())),
      planner_(trainer, std::filesystem::absolute(results)) {}

Resources ExperimentPlans::resources() const {
  Resources resources = host_.value_or(Host()).resources;
  if (target_.gpu) {
    constexpr int64_t kAnyNumber = 1'000'000;
    resources.gpu_count = kAnyNumber;
    resources.gpu_memory_gib = device_table().find(*target_.gpu).memory_gib;
  }
  return resources;
}

std::vector<Run> ExperimentPlans::runs() const {
  std::vector<Run> runs;
  for (const Run& run : expansion_.runs) {
    if (run.repeat == 0) runs.push_back(run);
  }
  return runs;
}

int64_t ExperimentPlans::repeats_of(const Run& run) const {
  return std::ranges::count(expansion_.runs, run.series, &Run::series);
}

DeviceForRuns ExperimentPlans::device_of(const RunSpec& spec) const {
  return planned_device(target_, expansion_, spec, host_);
}

std::optional<RunSpec> ExperimentPlans::spec_with(const Run& run,
                                                  const std::vector<std::string>& set) const {
  try {
    return expansion_.variant(run, set).spec;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
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
  const bool is_doubled = run.doubling && run.doubling->key() == key;
  if (!is_doubled) return plan_with(run, {fmt::format("{}={}", key, value)}, suffix);
  try {
    return plan(doubled_run(run.doubling, value));
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
  TriedAbove above;
  const auto fits_at = [&](int64_t value) -> std::optional<ValueFit> {
    PlannedRow row = row_of(value);
    if (!row.plan) {
      above.refused[value] = row.problem;
      return std::nullopt;
    }
    const ValueFit fit = value_fit(*row.plan, row.spec, key);
    if (fit == ValueFit::kFits) {
      row_of_largest = std::move(row);
    } else {
      above.too_large.insert(value);
    }
    return fit;
  };
  const std::optional<int64_t> largest =
      largest_value(static_cast<int64_t>(range_of_key(key).maximum), widest_gap(run.spec), fits_at);
  above.drop_up_to(largest.value_or(0));
  PlannedRow row = row_of_largest ? std::move(*row_of_largest) : row_of(1);
  const std::string problem =
      above.too_large.empty() ? row_of(2 * largest.value_or(1)).problem : std::string();
  row.notes.push_back(bound_note(run.series, key, largest, above, problem));
  return row;
}

void ExperimentPlans::add_timeline(PlannedRow& row) {
  if (!row.plan) return;
  row.plan = planner_.plan(row.spec, device_of(row.spec), /*timeline=*/true);
}

}  // namespace fsdp
