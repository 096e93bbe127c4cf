#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/record/memory_peak.h"
#include "contract/spec/run_spec.h"

// The request to `fsdp-train --plan` and its answer, a line of JSON each.
namespace fsdp {

// The device that a run is planned for.
struct PlannedDevice {
  DeviceKind kind = DeviceKind::kCpu;  // cpu or cuda
  int64_t memory_bytes = 0;            // that a rank may use; 0: unknown
  int64_t context_bytes = 0;           // part of it that CUDA and NCCL take
  int64_t compute_capability = 0;      // of the GPU, 90 for 9.0; 0 on the CPU
  std::string name{};                  // from its driver or the kernel; empty: unknown

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind);
    visit("memory_bytes", self.memory_bytes);
    visit("context_bytes", self.context_bytes);
    visit("compute_capability", self.compute_capability);
    visit("name", self.name);
  }
};

// The node with the most ranks, which share its memory.
struct PlannedHost {
  int64_t memory_bytes = 0;  // that its ranks may use; 0: unknown
  int64_t ranks = 1;         // ranks that it runs

  static void visit_fields(auto& self, auto&& visit) {
    visit("memory_bytes", self.memory_bytes);
    visit("ranks", self.ranks);
  }
};

struct PlanRequest {
  std::string specification;      // a run's, resolved, as to_yaml writes it
  PlannedDevice device;           // what it is planned for
  PlannedHost host;               // where it runs
  std::filesystem::path results;  // where its data may be prepared; may be missing
  bool timeline = false;          // asks for a timeline

  static void visit_fields(auto& self, auto&& visit) {
    visit("specification", self.specification);
    visit("device", self.device);
    visit("host", self.host);
    visit("results", self.results);
    visit("timeline", self.timeline);
  }
};

// kTight: above 85 % of the available memory. From there on, allocators return cached memory and
// request it again.
enum class Fit { kFits, kTight, kDoesNotFit, kUnknown };

constexpr auto enum_names(Fit) {
  return std::array{"fits"sv, "tight"sv, "does_not_fit"sv, "unknown"sv};
}

// The peak of one phase, on the rank with the highest peak.
struct PhasePlan {
  MemoryPhase phase = MemoryPhase::kStart;  // what the rank does
  int64_t memory_requested_bytes_max = 0;   // peak of the phase

  static void visit_fields(auto& self, auto&& visit) {
    visit("phase", self.phase);
    visit("memory_requested_bytes_max", self.memory_requested_bytes_max);
  }
};

// The memory that tensors request at one moment.
struct MemoryMoment {
  int64_t allocation = 0;                   // how many allocations and releases came before
  MemoryPhase phase = MemoryPhase::kStart;  // what the rank does
  std::optional<int64_t> unit;              // at which unit of the model; null: none
  MemoryByUse by_use;

  static void visit_fields(auto& self, auto&& visit) {
    visit("allocation", self.allocation);
    visit("phase", self.phase);
    visit("unit", self.unit);
    MemoryByUse::visit_fields(self.by_use, visit);
  }
};

// The predicted memory and time of one rank of a run, the rank that needs most.
struct RunPlan {
  int64_t parameter_count = 0;             // parameters of the model, without adapters
  int64_t trained_parameter_count = 0;     // parameters that are trained, those of adapters too
  int64_t memory_requested_bytes_max = 0;  // what tensors ask for, at the peak
  // The same as the device's allocator counts it: rounded up on a GPU.
  int64_t memory_allocated_bytes_max = 0;
  // Memory that a GPU's allocator takes from the device for it; on the CPU as allocated.
  int64_t memory_reserved_bytes_max = 0;
  // Reserved, and what the context and the collectives' buffers take.
  int64_t memory_device_bytes_max = 0;
  // Allocated at the end of the last micro-batch's forward.
  int64_t memory_allocated_bytes_forward = 0;
  int64_t memory_reserved_bytes_forward = 0;  // reserved then
  // The host's memory that the rank's process takes, with tensors on the CPU.
  int64_t memory_host_bytes_max = 0;
  int64_t memory_node_bytes_max = 0;  // what all ranks of a node take of its memory
  // Size of a checkpoint's files on the disk, to within 1 kB; 0: the run saves none.
  int64_t checkpoint_bytes = 0;
  // Time of a step; null: not known. An assumption says so where it is uncalibrated.
  std::optional<double> step_time_ms;
  // The part in which compute waits for other ranks or the host; null: not calibrated.
  std::optional<double> communication_exposed_ms;
  // The model's products (see contract/families/flops.h), as a part of the device's peak; null: the
  // peak or the time is not known.
  std::optional<double> mfu_percent;
  std::optional<double> hfu_percent;          // the same with what is recomputed
  std::optional<int64_t> memory_limit_bytes;  // what the rank may use; null: not known
  // The memory of a node that its ranks may use; null: not known.
  std::optional<int64_t> memory_node_limit_bytes;
  Fit fit = Fit::kUnknown;        // fits, tight, does_not_fit or unknown
  MemoryPeak peak;                // when and with what memory is fullest
  std::vector<PhasePlan> phases;  // the peak of each phase
  // Moments in their order, from the start to a checkpoint. Each equal part has the one with most
  // memory and the one with least. Empty unless asked for.
  std::vector<MemoryMoment> timeline;
  TextList assumptions;     // what was not known and is taken to be so
  double plan_time_ms = 0;  // time that the planning took

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
    visit("mfu_percent", self.mfu_percent);
    visit("hfu_percent", self.hfu_percent);
    visit("memory_limit_bytes", self.memory_limit_bytes);
    visit("memory_node_limit_bytes", self.memory_node_limit_bytes);
    visit("fit", self.fit);
    visit("peak", self.peak);
    visit("phases", self.phases);
    visit("timeline", self.timeline);
    visit("assumptions", self.assumptions);
    visit("plan_time_ms", self.plan_time_ms);
  }
};

struct PlanAnswer {
  std::optional<RunPlan> plan;  // the plan; null: there is none
  std::string error;            // why there is none; else empty

  static void visit_fields(auto& self, auto&& visit) {
    visit("plan", self.plan);
    visit("error", self.error);
  }
};

// A plan's verdict on a key's value in a search for the largest that fits. kTooLarge: no larger
// value fits either.
enum class ValueFit { kFits, kDoesNotFit, kTooLarge };

// `spec` is the planned run with the value. `key` is a path such as batch.size_per_rank.
ValueFit value_fit(const RunPlan& plan, const RunSpec& spec, const std::string& key);

}  // namespace fsdp
