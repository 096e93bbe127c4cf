#include "trainer/plan/plan_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <istream>
#include <map>
#include <ostream>

#include "contract/families/family.h"
#include "contract/files/file_digest.h"
#include "contract/inputs/inputs.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/text/foreign_json.h"
#include "contract/text/json.h"
#include "contract/text/json_fields.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/plan/memory_recording.h"
#include "trainer/plan/planned_batches.h"
#include "trainer/step/training_step.h"
#include "trainer/strategy/whole_units.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTightFrom = 0.85;  // of the memory there is

// Files do not change while requests are answered.
std::string remembered_digest(const std::filesystem::path& file) {
  static std::map<std::filesystem::path, std::string> digests;
  const auto [known, is_new] = digests.try_emplace(file);
  if (is_new) known->second = file_digest(file);
  return known->second;
}

void evaluate(TrainingStep& training, const std::function<Batch()>& batch) {
  at::Tensor sums = at::zeros({3}, at::TensorOptions(at::kDouble).device(at::kMeta));
  const Batch planned = [&] {
    const MemoryScope scope(MemoryUse::kBatch);
    return batch();
  }();
  sums.narrow(0, 0, 2).add_(training.evaluate(planned));
}

// All that the run does, but that it does each thing once.
void run_phases(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                const PlannedBatches& batches) {
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  const Mesh mesh(spec.strategy, world);
  TrainingStep training(spec, config, backend, mesh, world, {});
  int64_t number = 0;
  for (const auto& make_step : batches.steps) {
    PlannedStep step = make_step();
    training.run(++number, step.computed, spec.optimizer.learning_rate, 0.0, [] {});
  }
  if (batches.evaluation) evaluate(training, batches.evaluation);
  if (wants_checkpoints(spec) && spec.checkpoint.state_dict == StateDict::kFull) {
    const MemoryScope scope(MemoryPhase::kCheckpoint);
    for_each_whole_unit(training.store(), mesh, [](const FlatLayout&, const at::Tensor&) {});
  }
}

std::optional<int64_t> limit_of(const RunSpec& spec, const PlannedDevice& device) {
  std::optional<int64_t> limit;
  if (device.memory_bytes > 0) limit = device.memory_bytes;
  if (spec.memory_limit_gib > 0) {
    const int64_t bytes = memory_limit_bytes(spec);
    limit = std::min(limit.value_or(bytes), bytes);
  }
  return limit;
}

Fit fit_of(int64_t bytes, std::optional<int64_t> limit) {
  if (!limit) return Fit::kUnknown;
  if (bytes > *limit) return Fit::kDoesNotFit;
  return static_cast<double>(bytes) > kTightFrom * static_cast<double>(*limit) ? Fit::kTight
                                                                               : Fit::kFits;
}

}  // namespace

RunPlan plan_run(const PlanRequest& request) {
  const auto start = Clock::now();
  const RunSpec spec = run_spec_from_yaml(request.specification, {});
  const ModelConfig config = model_config(spec);
  const bool is_cuda = request.device.kind == DeviceKind::kCuda;
  const auto backend = make_meta_backend(is_cuda ? at::kCUDA : at::kCPU, spec.kernels);
  MetaAllocator::instance().reset_peak();
  const PlannedBatches batches = planned_batches(spec, config, request.results, remembered_digest);

  RunPlan plan;
  const MemoryRecording recording;
  run_phases(spec, config, *backend, batches);
  const AllocationPeak peak = MetaAllocator::instance().peak();
  plan.parameter_count = static_cast<int64_t>(parameter_count(config));
  plan.peak = memory_peak(peak, 1);
  plan.memory_requested_bytes_max = peak.bytes;
  plan.memory_host_bytes_max = recording.host_bytes_max();
  for (size_t i = 0; i < enum_names(MemoryPhase()).size(); ++i) {
    const auto phase = static_cast<MemoryPhase>(i);
    if (const int64_t bytes = recording.bytes_max(phase); bytes > 0) {
      plan.phases.push_back({phase, bytes});
    }
  }
  plan.memory_limit_bytes = limit_of(spec, request.device);
  plan.memory_allocated_bytes_max = peak.bytes;
  plan.memory_reserved_bytes_max = peak.bytes;
  plan.memory_device_bytes_max = peak.bytes;
  plan.fit = fit_of(peak.bytes, plan.memory_limit_bytes);
  plan.assumptions = batches.assumptions;
  plan.plan_time_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return plan;
}

void answer_plan_requests(std::istream& requests, std::ostream& answers) {
  for (std::string line; std::getline(requests, line);) {
    PlanAnswer answer;
    try {
      PlanRequest request;
      JsonFields("request").read("", parse_foreign_json(line), request);
      answer.plan = plan_run(request);
    } catch (const std::exception& error) {
      answer.error = error.what();
    }
    answers << json_text(answer) << std::endl;
  }
}

}  // namespace fsdp
