#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/record/memory_peak.h"
#include "contract/record/memory_trace.h"
#include "contract/record/step_account.h"
#include "contract/record/step_trace.h"
#include "contract/spec/run_spec.h"

// The request to `fsdp-train --plan` and its answer, a line of JSON each.
namespace fsdp {

// The device that a run is planned for.
struct PlannedDevice {
  DeviceKind kind = DeviceKind::kCpu;  // cpu or cuda
  int64_t memory_bytes = 0;            // memory that a rank may use; 0: unknown
  int64_t context_bytes = 0;           // the part of it that CUDA and NCCL take
  int64_t compute_capability = 0;      // 90 for 9.0; 0: unknown, or a CPU
  std::string name{};                  // as its driver or the kernel names it; empty: unknown

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind);
    visit("memory_bytes", self.memory_bytes);
    visit("context_bytes", self.context_bytes);
    visit("compute_capability", self.compute_capability);
    visit("name", self.name);
  }
};

// The node with the most ranks of the run. They share its memory.
struct PlannedHost {
  int64_t memory_bytes = 0;  // memory that its ranks may use together; 0: unknown
  int64_t ranks = 1;         // ranks that it runs

  static void visit_fields(auto& self, auto&& visit) {
    visit("memory_bytes", self.memory_bytes);
    visit("ranks", self.ranks);
  }
};

struct PlanRequest {
  std::string specification;  // of a resolved run, as to_yaml() writes it
  PlannedDevice device;
  PlannedHost host;
  std::filesystem::path results;  // for prepared data and calibrations; may be missing
  bool timeline = false;          // asks for RunPlan::timeline
  bool trace = false;             // asks for RunPlan::trace and RunPlan::memory

  static void visit_fields(auto& self, auto&& visit) {
    visit("specification", self.specification);
    visit("device", self.device);
    visit("host", self.host);
    visit("results", self.results);
    visit("timeline", self.timeline);
    visit("trace", self.trace);
  }
};

// kTight: takes more than 85 % of the available memory, or fits only if the allocator returns
// cached memory and requests it again.
enum class Fit { kFits, kTight, kDoesNotFit, kUnknown };

constexpr auto enum_names(Fit) {
  return std::array{"fits"sv, "tight"sv, "does_not_fit"sv, "unknown"sv};
}

// The peak of one phase, on the rank that RunPlan describes.
struct PhasePlan {
  MemoryPhase phase = MemoryPhase::kStart;
  int64_t memory_requested_bytes_max = 0;

  static void visit_fields(auto& self, auto&& visit) {
    visit("phase", self.phase);
    visit("memory_requested_bytes_max", self.memory_requested_bytes_max);
  }
};

// The predicted memory and time of one rank of a run, the rank that needs most.
struct RunPlan {
  int64_t parameter_count = 0;             // parameters of the model, without adapters
  int64_t trained_parameter_count = 0;     // trained parameters, including those of adapters
  int64_t memory_requested_bytes_max = 0;  // peak of what tensors request
  // The same peak as the device's allocator counts it. On a GPU it rounds sizes up and holds
  // cuBLAS's workspace.
  int64_t memory_allocated_bytes_max = 0;
  // Memory that the GPU's allocator takes from the device; on the CPU, as allocated.
  int64_t memory_reserved_bytes_max = 0;
  // Reserved memory, the CUDA context and NCCL's buffers together.
  int64_t memory_device_bytes_max = 0;
  // Allocated at the end of the last micro-batch's forward.
  int64_t memory_allocated_bytes_forward = 0;
  int64_t memory_reserved_bytes_forward = 0;  // reserved then
  // Host memory of the rank's process, including its tensors on the CPU.
  int64_t memory_host_bytes_max = 0;
  int64_t memory_node_bytes_max = 0;  // host memory of all ranks of the node
  // Size of a checkpoint's files on the disk, to within 1 kB; 0: the run saves none.
  int64_t checkpoint_bytes = 0;
  // Time of a step; null: not known. `assumptions` says so if it is not from a calibration.
  std::optional<double> step_time_ms;
  // The part of this time in which computation waits for collectives, copies or the host; null: not
  // calibrated.
  std::optional<double> communication_exposed_ms;
  std::optional<TimeByPart> time_by_part;  // adds up to the step; null: not calibrated
  // FLOPs of the model (see contract/families/flops.h) per second, as a percentage of the device's
  // peak; null: the peak or the time is not known.
  std::optional<double> mfu_percent;
  std::optional<double> hfu_percent;          // the same, with FLOPs of recomputation
  std::optional<int64_t> memory_limit_bytes;  // memory that the rank may use; null: not known
  // The memory of a node that its ranks may use; null: not known.
  std::optional<int64_t> memory_node_limit_bytes;
  Fit fit = Fit::kUnknown;
  MemoryPeak peak;                // when memory is fullest, and what uses it
  std::vector<PhasePlan> phases;  // the peak of each phase
  // Moments in order, from the start to a checkpoint. The allocations and releases are cut into
  // equal parts, and each part has its moments of least and of most memory. Empty unless requested.
  std::vector<MemoryMoment> timeline;
  // The work of a rank in the planned step. Empty unless requested and calibrated.
  std::vector<TraceSpan> trace;
  std::vector<MemoryChange> memory;  // from the start to a checkpoint; empty unless requested
  TextList assumptions;              // sentences: what was not known, and what is assumed
  double plan_time_ms = 0;           // time that the planning took

  static void visit_fields(auto& self, auto&& visit) {
    visit("parameter_count", self.parameter_count);
    visit("trained_parameter_count", self.trained_parameter_count);
    visit("memory_requested_bytes_max", self.memory_requested_bytes_max);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max);
    visit("memory_device_bytes_max", self.memory_device_bytes_max);
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward);
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward);
    visit("memory_host_bytes_max", self.memory_host_bytes_max);
    visit("memory_node_bytes_max", self.memory_node_bytes_max);
    visit("checkpoint_bytes", self.checkpoint_bytes);
    visit("step_time_ms", self.step_time_ms);
    visit("communication_exposed_ms", self.communication_exposed_ms);
    visit("time_by_part", self.time_by_part);
    visit("mfu_percent", self.mfu_percent);
    visit("hfu_percent", self.hfu_percent);
    visit("memory_limit_bytes", self.memory_limit_bytes);
    visit("memory_node_limit_bytes", self.memory_node_limit_bytes);
    visit("fit", self.fit);
    visit("peak", self.peak);
    visit("phases", self.phases);
    visit("timeline", self.timeline);
    visit("trace", self.trace);
    visit("memory", self.memory);
    visit("assumptions", self.assumptions);
    visit("plan_time_ms", self.plan_time_ms);
  }
};

struct PlanAnswer {
  std::optional<RunPlan> plan;  // null: the run cannot be planned
  std::string error;            // why the run cannot be planned; else empty

  static void visit_fields(auto& self, auto&& visit) {
    visit("plan", self.plan);
    visit("error", self.error);
  }
};

// The result for one value in the search for a key's largest value that fits. kTooLarge: it does
// not fit, and no larger value does.
enum class ValueFit { kFits, kDoesNotFit, kTooLarge };

// `spec` is the planned run with the value. `key` is a path such as batch.size_per_rank.
ValueFit value_fit(const RunPlan& plan, const RunSpec& spec, const std::string& key);

}  // namespace fsdp
