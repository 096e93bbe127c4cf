#include "runner/plan/experiment_plans.h"

#include <fmt/format.h>

#include <utility>

#include "contract/devices/device_table.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/largest_value.h"

namespace fsdp {
namespace {

Expansion expand(const Experiment& experiment, ExpandOptions options, bool names_gpu,
                 const Resources& resources) {
  options.check_gpus = false;
  if (names_gpu) options.set.insert(options.set.begin(), "device=cuda");
  return experiment.expand(options, resources);
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
                                 Host host, std::optional<std::string> gpu,
                                 const std::filesystem::path& trainer,
                                 const std::filesystem::path& results)
    : on_cluster_(options.on_cluster),
      host_(on_cluster_ ? Host() : std::move(host)),
      gpu_(std::move(gpu)),
      experiment_(Experiment::load(file)),
      expansion_(expand(experiment_, std::move(options), gpu_.has_value(), resources())),
      planner_(trainer, std::filesystem::absolute(results)) {}

Resources ExperimentPlans::resources() const {
  Resources resources = host_.resources;
  if (gpu_) {
    constexpr int64_t kAnyNumber = 1'000'000;
    resources.gpu_count = kAnyNumber;
    resources.gpu_memory_gib = device_table().find(*gpu_).memory_gib;
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

DeviceForRuns ExperimentPlans::device_of(const RunSpec& spec) const {
  return spec.device == DeviceKind::kCuda ? planned_gpu(gpu_, expansion_, spec, host_)
                                          : planned_cpu(spec, on_cluster_);
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
    row.plan = planner_.plan(run.spec, device.device);
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
  std::optional<PlannedRow> largest;
  const auto fits_at = [&](int64_t value) -> std::optional<ValueFit> {
    PlannedRow row = row_of(value);
    if (!row.plan) return std::nullopt;
    const ValueFit fit = value_fit(*row.plan, row.spec, key);
    if (fit == ValueFit::kFits) largest = std::move(row);
    return fit;
  };
  largest_value(static_cast<int64_t>(range_of_key(key).maximum), widest_gap(run.spec), fits_at);
  return largest ? std::move(*largest) : row_of(1);
}

void ExperimentPlans::add_timeline(PlannedRow& row) {
  if (!row.plan) return;
  row.plan = planner_.plan(row.spec, device_of(row.spec).device, /*timeline=*/true);
}

}  // namespace fsdp
