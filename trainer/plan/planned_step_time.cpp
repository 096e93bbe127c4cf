// Plans a step's time, from a calibration or from what others measured.
#include "trainer/plan/planned_step_time.h"

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files/input_file.h"
#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "base/text/json_fields.h"
#include "contract/devices/device_table.h"
#include "contract/families/flops.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/environment.h"
#include "trainer/data/batches.h"
#include "trainer/plan/planned_time.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

// The most micro-batches that are planned per step. If a step has more, its time is scaled up.
constexpr size_t kMostMicroBatches = 64;

// Returns the number of threads of one rank; 0: unknown. A planned CPU is taken to be this host's.
int64_t threads_of(const RunSpec& spec, const PlannedDevice& device) {
  if (device.kind != DeviceKind::kCpu) return spec.threads_per_rank.value_or(0);
  WorldEnvironment world;
  world.local_world_size = static_cast<int>(spec.strategy.ranks);
  return threads_per_rank(spec, world, available_cores(), [&](const std::string& name) {
    const auto is_of_run = [&](const std::string& set) { return set.starts_with(name + '='); };
    const auto found = std::ranges::find_if(spec.environment, is_of_run);
    if (found == spec.environment.end()) return environment_variable(name);
    return std::optional(found->substr(name.size() + 1));
  });
}

// Returns nullopt if there is no calibration.
std::optional<Calibration> read_calibration(const std::filesystem::path& file) {
  if (!input_exists(file)) return std::nullopt;
  Calibration calibration;
  JsonFields(file.string()).read("", read_json_object(file), calibration);
  return calibration;
}

// Throws ConfigError if the calibration has another device, libtorch, number of ranks or number of
// threads than the run.
void check_is_of(const Calibration& calibration, const std::filesystem::path& file,
                 const PlanRequest& request, const RunSpec& spec) {
  Calibration wanted;
  wanted.device = request.device.name;
  wanted.libtorch = TORCH_VERSION;
  wanted.ranks = spec.strategy.ranks;
  wanted.threads = threads_of(spec, request.device);
  const std::string misfit = calibration_misfit(calibration, wanted);
  if (!misfit.empty()) throw ConfigError(file.string(), "", misfit + "; calibrate again");
}

struct StepFlops {
  double model = 0;
  double hardware = 0;
};

struct StepTime {
  double time_ms = 0;
  double waited_ms = 0;
  TimeByPart parts{};
  StepFlops flops{};
  std::vector<TraceSpan> trace{};
};

at::DeviceType type_of(const PlannedDevice& device) {
  return device.kind == DeviceKind::kCuda ? at::kCUDA : at::kCPU;
}

// Returns the time from one step's end to the next one's, times `scale`.
StepTime difference(const StepTime& now, const StepTime& before, double scale) {
  StepTime time{.time_ms = scale * (now.time_ms - before.time_ms),
                .waited_ms = scale * (now.waited_ms - before.waited_ms)};
  double sum_ms = 0;
  for (size_t i = 0; i < kTimeParts; ++i) {
    time.parts.milliseconds[i] = scale * (now.parts.milliseconds[i] - before.parts.milliseconds[i]);
    sum_ms += time.parts.milliseconds[i];
  }
  // The last work of a step may be on another stream.
  time.parts[TimePart::kOther] += time.time_ms - sum_ms;
  return time;
}

// Returns the time of a step that follows another one.
StepTime step_time(const RunSpec& spec, const ModelConfig& config, const PlannedDevice& device,
                   std::vector<Batch> micro_batches, bool traces, PlannedTime& time) {
  const size_t most = traces ? micro_batches.size() : kMostMicroBatches;
  const double scale =
      std::max(1.0, static_cast<double>(micro_batches.size()) / static_cast<double>(most));
  micro_batches.resize(std::min(micro_batches.size(), most));
  const auto backend = make_meta_backend(type_of(device), spec.kernels, planned_streams(time),
                                         device.compute_capability);
  const auto world = planned_group(static_cast<int>(spec.strategy.ranks), time);
  const Mesh mesh(spec.strategy, *world);
  TrainingStep training(spec, config, *backend, mesh, *world, {});
  StepTime before;
  for (int64_t number = 1;; ++number) {
    training.run(number, micro_batches, spec.optimizer.learning_rate, 0.0, [] {});
    const StepTime now{time.end_ms(), time.waited_ms(), time.parts()};
    if (number == 2) {
      StepTime step = difference(now, before, scale);
      step.trace = time.trace();
      return step;
    }
    before = now;
    if (traces) time.begin_trace();
  }
}

StepFlops flops_of(const std::vector<Batch>& micro_batches, const ModelConfig& config,
                   const RunSpec& spec) {
  StepFlops flops;
  for (const Batch& batch : micro_batches) {
    const ForwardFlops forward = forward_flops(config, shape_of(batch), spec.method, spec.lora);
    flops.model += model_flops(forward);
    flops.hardware += hardware_flops(forward, spec.activation_checkpointing);
  }
  return flops;
}

// Adds the rest of a step behind its last part.
void add_rest(std::vector<TraceSpan>& trace, double rest_ms) {
  TraceSpan rest{.name = std::string(name_of(TimePart::kOther))};
  rest.time_ns = std::llround(rest_ms * 1e6);
  for (const TraceSpan& span : trace) {
    if (span.kind == SpanKind::kPart) {
      rest.begin_ns = std::max(rest.begin_ns, span.begin_ns + span.time_ns);
    }
  }
  trace.push_back(std::move(rest));
}

// Returns the usual step of median time. If `calibration` lacks work of a step, returns nullopt and
// adds an assumption to `plan`.
std::optional<StepTime> replayed(const Calibration& calibration, const PlanRequest& request,
                                 const RunSpec& spec, const ModelConfig& config,
                                 const PlannedBatches& batches, RunPlan& plan) {
  const WorkTimes times(calibration.times);
  std::vector<StepTime> steps;
  for (const auto& make_step : batches.usual_steps) {
    PlannedTime time(times, type_of(request.device));
    const ObservedWork observed(time);
    const std::vector<Batch> micro_batches = make_step();
    steps.push_back(step_time(spec, config, request.device, micro_batches, request.trace, time));
    steps.back().flops = flops_of(micro_batches, config, spec);
    if (!time.unknown().empty()) {
      plan.assumptions.push_back("step times are not known: '" + time.unknown().front() +
                                 "' was not measured; calibrate again");
      return std::nullopt;
    }
  }
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle, {}, &StepTime::time_ms);
  const double rest_ms = times.time_ms({.name = kRestOfStep, .width = 1}).value_or(0);
  middle->time_ms += rest_ms;
  middle->parts[TimePart::kOther] += rest_ms;
  if (!middle->trace.empty()) add_rest(middle->trace, rest_ms);
  return *middle;
}

// Returns the GPU's peak at the precision of the run's products; nullopt if unknown.
std::optional<double> peak_flops_per_ms(const DeviceModel* gpu, const RunSpec& spec) {
  const auto peak = gpu ? gpu->peak_tflops(spec.precision.compute()) : std::nullopt;
  return peak ? std::optional(*peak * 1e12 / 1e3) : std::nullopt;
}

}  // namespace

void plan_step_time(const PlanRequest& request, const RunSpec& spec, const ModelConfig& config,
                    const PlannedBatches& batches, RunPlan& plan) {
  const std::filesystem::path file = calibration_file(
      request.results, calibration_identity(spec, config), request.device.name, TORCH_VERSION);
  std::optional<Calibration> calibration;
  try {
    calibration = read_calibration(file);
    if (calibration) check_is_of(*calibration, file, request, spec);
  } catch (const std::exception& error) {
    calibration.reset();
    plan.assumptions.push_back(std::string("step times are not known: ") + error.what());
  }
  std::optional<StepTime> step;
  if (calibration) step = replayed(*calibration, request, spec, config, batches, plan);
  if (step) {
    plan.step_time_ms = step->time_ms;
    plan.communication_exposed_ms = step->waited_ms;
    plan.time_by_part = step->parts;
    plan.trace = std::move(step->trace);
  }
  const DeviceModel* gpu = device_table().device_of(request.device.name);
  const std::optional<double> peak = peak_flops_per_ms(gpu, spec);
  if (!peak) return;
  const StepFlops flops =
      step ? step->flops : flops_of(batches.usual_steps.front()(), config, spec);
  const bool is_alike =  // like the runs that gave hfu_percent
      spec.precision.compute() != Dtype::kFp32 && spec.strategy.offload == Offload::kNone;
  if (!plan.step_time_ms && gpu->hfu_percent && is_alike) {
    plan.step_time_ms = flops.hardware / (*peak * *gpu->hfu_percent / 100);
    plan.assumptions.push_back(
        "step times are uncalibrated: they assume the utilization that others measured with 7B "
        "models; `fsdp-run calibrate` measures this GPU");
  }
  if (!plan.step_time_ms) return;
  plan.mfu_percent = 100 * flops.model / (*peak * *plan.step_time_ms);
  plan.hfu_percent = 100 * flops.hardware / (*peak * *plan.step_time_ms);
}

}  // namespace fsdp
