// Plans a run by running its step, evaluation and checkpoint on meta. The trainer has no second
// model of memory.
#include "trainer/plan/plan_run.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <istream>
#include <map>
#include <ostream>

#include "base/files/file_digest.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/json_fields.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "trainer/checkpoint/full_weights_writer.h"
#include "trainer/checkpoint/saved_state.h"
#include "trainer/checkpoint/writer_thread.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/plan/gpu_memory.h"
#include "trainer/plan/memory_recording.h"
#include "trainer/plan/planned_batches.h"
#include "trainer/plan/planned_step_time.h"
#include "trainer/step/missing_kernels.h"
#include "trainer/step/training_step.h"
#include "trainer/strategy/whole_units.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMebibyte = int64_t{1} << 20;

// The host memory of a rank's process beside tensors: the program, its libraries' tables, its
// threads, and the ranks' exchanges. The CPU value is the median of measured runs
// (tests/plan/test_host_memory.py). The CUDA value is an estimate that no GPU has confirmed.
constexpr int64_t kCpuProcessBytes = 67 * kMebibyte;
// The code that oneDNN generates for products in 16 bits.
constexpr int64_t kCpuNarrowProductsBytes = 16 * kMebibyte;
constexpr int64_t kCudaProcessBytes = 2048 * kMebibyte;

// Files are assumed not to change while requests are answered.
std::string remembered_digest(const std::filesystem::path& file) {
  static std::map<std::filesystem::path, std::string> digests;
  const auto known = digests.find(file);
  if (known != digests.end()) return known->second;
  return digests[file] = file_digest(file);
}

// While it exists, planned kernels add in the order that train.deterministic selects.
class PlannedOrder {
 public:
  explicit PlannedOrder(bool deterministic) {
    at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  ~PlannedOrder() { at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false); }
  PlannedOrder(const PlannedOrder&) = delete;
  PlannedOrder& operator=(const PlannedOrder&) = delete;
};

void evaluate(TrainingStep& training, const std::function<Batch()>& batch) {
  at::Tensor sums = at::zeros({3}, at::TensorOptions(at::kDouble).device(at::kMeta));
  const Batch planned = [&] {
    const MemoryScope scope(MemoryUse::kBatch);
    return batch();
  }();
  sums.narrow(0, 0, 2).add_(training.evaluate(planned));
}

// Returns the host buffers through which checkpoints of GPU memory are written. They stay.
WriterThread::HostBuffers buffers_of_checkpoints(const RunSpec& spec, const Backend& backend) {
  const bool is_on_gpu = backend.planned_for() != at::kCPU;
  const bool is_on_host =
      spec.strategy.offload != Offload::kNone && spec.checkpoint.state_dict == StateDict::kSharded;
  WriterThread::HostBuffers buffers;
  if (!wants_checkpoints(spec) || !is_on_gpu || is_on_host) return buffers;
  for (at::Tensor& bytes : buffers) {
    bytes = backend.empty_host(WriterThread::kBufferBytes, at::kByte);
  }
  return buffers;
}

// Returns about how many bytes a merge needs at once in rank 0's host memory: the size of the
// largest tensor (see merged_model.h).
int64_t merged_tensor_bytes(const RunSpec& spec, const TrainingStep& training) {
  int64_t numel = 0;
  for (const ParameterPtr& parameter : frozen_parameters(training)) {
    for (const NamedTensor& tensor : parameter->tensors()) {
      numel = std::max(numel, numel_of(tensor));
    }
  }
  return numel * static_cast<int64_t>(c10::elementSize(merged_dtype(spec)));
}

// Runs what may take the most memory: steps, evaluations, a checkpoint, and the steps again.
void run_phases(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                const PlannedBatches& batches, MemoryRecording& recording,
                const PlanRequest& request, RunPlan& plan) {
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  const Mesh mesh(spec.strategy, world);
  TrainingStep training(spec, config, backend, mesh, world, {});
  int64_t number = 0;
  const auto run_steps = [&](const std::function<void()>& at_forward_end) {
    for (const auto& make_step : batches.steps) {
      PlannedStep step = make_step();
      training.run(++number, step.computed, spec.optimizer.learning_rate, 0.0, at_forward_end);
    }
  };
  run_steps([&] {
    recording.mark_forward_end();
    plan.memory_allocated_bytes_forward = MetaAllocator::instance().allocated_bytes();
    plan.memory_reserved_bytes_forward = plan.memory_allocated_bytes_forward;
  });
  for (const auto& make_batch : batches.evaluations) evaluate(training, make_batch);
  if (wants_checkpoints(spec) && spec.checkpoint.state_dict == StateDict::kFull) {
    const MemoryScope scope(MemoryPhase::kCheckpoint);
    for_each_whole_unit(training.store(), mesh, [](const FlatLayout&, const at::Tensor&) {});
  }
  const WriterThread::HostBuffers buffers = buffers_of_checkpoints(spec, backend);
  if (wants_checkpoints(spec)) plan.checkpoint_bytes = checkpoint_bytes(spec, training, mesh);
  at::Tensor merged;
  if (wants_checkpoints(spec) && spec.checkpoint.merge) {
    merged = backend.empty_host(merged_tensor_bytes(spec, training), at::kByte);
    const bool is_between_steps = spec.checkpoint.every_steps || spec.checkpoint.when_improved;
    if (!is_between_steps) merged.reset();  // no step follows
  }
  if (request.timeline) plan.timeline = memory_timeline(recording.changes());
  if (request.trace) plan.memory = recording.changes();
  // Later steps find the holes that these steps have left, on the host and in GPU memory.
  if (spec.train.steps.value_or(2) > 1) run_steps([] {});
}

// Returns the device memory available to tensors; nullopt: unknown.
std::optional<int64_t> limit_of(const RunSpec& spec, const PlannedDevice& device) {
  std::optional<int64_t> limit;
  if (device.memory_bytes > 0) limit = device.memory_bytes - device.context_bytes;
  if (const int64_t bytes = memory_limit_bytes(spec); bytes > 0) {
    limit = std::min(limit.value_or(bytes), bytes);
  }
  return limit;
}

std::optional<int64_t> where_known(int64_t bytes) {
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

// Returns the worse of two results, or the known one if the other is unknown.
Fit both(Fit one, Fit other) {
  if (one == Fit::kUnknown) return other;
  return other == Fit::kUnknown ? one : std::max(one, other);
}

int64_t process_bytes(DeviceKind device, Dtype computed_in) {
  if (device == DeviceKind::kCuda) return kCudaProcessBytes;
  return kCpuProcessBytes + (computed_in == Dtype::kFp32 ? 0 : kCpuNarrowProductsBytes);
}

void plan_host_memory(RunPlan& plan, const MemoryRecording& recording, const RunSpec& spec,
                      const PlanRequest& request) {
  plan.memory_host_bytes_max =
      process_bytes(request.device.kind, spec.precision.compute()) + recording.host_bytes_max();
  plan.memory_node_bytes_max = request.host.ranks * plan.memory_host_bytes_max;
  plan.memory_node_limit_bytes = where_known(request.host.memory_bytes);
  plan.fit = both(plan.fit, fit_within(plan.memory_node_bytes_max, plan.memory_node_limit_bytes));
}

void plan_device_memory(RunPlan& plan, const MemoryRecording& recording, const RunSpec& spec,
                        const PlannedDevice& device) {
  const std::optional<int64_t> limit = limit_of(spec, device);
  plan.memory_allocated_bytes_max = plan.memory_requested_bytes_max;
  plan.memory_reserved_bytes_max = plan.memory_requested_bytes_max;
  plan.fit = fit_within(plan.memory_requested_bytes_max, where_known(memory_limit_bytes(spec)));
  if (device.kind == DeviceKind::kCuda) {
    const GpuMemory memory = replay_on_gpu(recording, spec, device, limit);
    plan.memory_allocated_bytes_max = memory.allocated_bytes_max;
    plan.memory_reserved_bytes_max = memory.reserved_bytes_max;
    plan.memory_allocated_bytes_forward = memory.allocated_bytes_forward;
    plan.memory_reserved_bytes_forward = memory.reserved_bytes_forward;
    plan.fit = memory.fit;
  }
  plan.memory_device_bytes_max = plan.memory_reserved_bytes_max + device.context_bytes;
  if (limit) plan.memory_limit_bytes = *limit + device.context_bytes;
}

}  // namespace

RunPlan plan_run(const PlanRequest& request) {
  const auto start = Clock::now();
  const RunSpec spec = run_spec_from_yaml(request.specification, {});
  const ModelConfig config = model_config(spec);
  const bool is_cuda = request.device.kind == DeviceKind::kCuda;
  const PlannedOrder order(spec.train.deterministic);
  const auto backend = make_meta_backend(is_cuda ? at::kCUDA : at::kCPU, spec.kernels,
                                         /*streams=*/nullptr, request.device.compute_capability);
  MetaAllocator::instance().reset_peak();
  const PlannedBatches batches = planned_batches(spec, config, request.results, remembered_digest);

  RunPlan plan;
  MemoryRecording recording(is_cuda ? at::kCUDA : at::kCPU);
  run_phases(spec, config, *backend, batches, recording, request, plan);
  const AllocationPeak peak = MetaAllocator::instance().peak();
  plan.parameter_count = static_cast<int64_t>(parameter_count(config));
  plan.trained_parameter_count =
      static_cast<int64_t>(trained_parameter_count(config, spec.method, spec.lora));
  plan.peak = memory_peak(peak, 1);
  plan.memory_requested_bytes_max = peak.bytes;
  for (size_t i = 0; i < enum_names(MemoryPhase()).size(); ++i) {
    const auto phase = static_cast<MemoryPhase>(i);
    if (const int64_t bytes = recording.bytes_max(phase); bytes > 0) {
      plan.phases.push_back({phase, bytes});
    }
  }
  plan_device_memory(plan, recording, spec, request.device);
  plan_host_memory(plan, recording, spec, request);
  plan.assumptions = batches.assumptions;
  if (is_cuda && request.device.compute_capability == 0) {
    plan.assumptions.push_back(
        "the kernels are those of a Hopper GPU; name another GPU with --gpu");
  }
  if (is_cuda && !spec.strategy.limit_all_gathers) {
    plan.assumptions.push_back(
        "the units that limit_all_gathers: false keeps while the GPU lags behind the host are not "
        "counted");
  }
  if (is_cuda && spec.data.rows == RowFill::kPadToLongest &&
      family_of(config).structure == ModelStructure::kDecoder) {
    plan.assumptions.push_back(
        "with pad_to_longest, attention does not use cuDNN, which would make a new plan for each "
        "length of rows");
  }
  const std::string slow = slow_rounding_note(spec, is_cuda ? at::kCUDA : at::kCPU);
  if (!slow.empty()) plan.assumptions.push_back(slow);
  plan_step_time(request, spec, config, batches, plan);
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
    } catch (const c10::Error& error) {
      answer.error = error.what_without_backtrace();
    } catch (const std::exception& error) {
      answer.error = error.what();
    }
    answers << json_text(answer) << std::endl;
  }
}

}  // namespace fsdp
