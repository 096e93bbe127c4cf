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
  DeviceKind kind = DeviceKind::kCpu;
  int64_t memory_bytes = 0;        // that a rank may use; 0: unknown
  int64_t context_bytes = 0;       // part of it that CUDA and NCCL take
  int64_t compute_capability = 0;  // 90 is 9.0
  std::string name{};              // from its driver or the kernel; empty: unknown

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, "cpu or cuda.", any_value());
    visit("memory_bytes", self.memory_bytes, "Memory that a rank may use; 0: not known.",
          any_value());
    visit("context_bytes", self.context_bytes,
          "Of it, what CUDA's context and NCCL's buffers take beside tensors.", any_value());
    visit("compute_capability", self.compute_capability, "Of the GPU, 90 for 9.0; 0 on the CPU.",
          any_value());
    visit("name", self.name, "As its driver, or the kernel, names it.", any_value());
  }
};

// The node with the most ranks, which share its memory.
struct PlannedHost {
  int64_t memory_bytes = 0;  // that they may use; 0: unknown
  int64_t ranks = 1;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("memory_bytes", self.memory_bytes, "Memory that its ranks may use; 0: not known.",
          any_value());
    visit("ranks", self.ranks, "Ranks that it runs.", any_value());
  }
};

struct PlanRequest {
  std::string specification;  // a run's, resolved, as to_yaml writes it
  PlannedDevice device;
  PlannedHost host;
  std::filesystem::path results;  // where its data may be prepared; may be missing
  bool timeline = false;          // asks for a timeline

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("specification", self.specification, "The run's, resolved, as YAML.", any_value());
    visit("device", self.device, "What it is planned for.", any_value());
    visit("host", self.host, "Where it runs.", any_value());
    visit("results", self.results, "Folder of results, where its data may be prepared.",
          any_value());
    visit("timeline", self.timeline, "Whether the plan is to have a timeline of memory.",
          any_value());
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
  MemoryPhase phase = MemoryPhase::kStart;
  int64_t memory_requested_bytes_max = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("phase", self.phase, "What the rank does.", any_value());
    visit("memory_requested_bytes_max", self.memory_requested_bytes_max, "Peak of the phase.",
          any_value());
  }
};

// The memory that tensors request at one moment.
struct MemoryMoment {
  int64_t allocation = 0;
  MemoryPhase phase = MemoryPhase::kStart;
  std::optional<int64_t> unit;
  MemoryByUse by_use;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("allocation", self.allocation, "How many allocations and releases came before.",
          any_value());
    visit("phase", self.phase, "What the rank does.", any_value());
    visit("unit", self.unit, "At which unit of the model; null: none.", any_value());
    MemoryByUse::visit_fields(self.by_use, visit);
  }
};

// The predicted memory and time of one rank of a run, the rank that needs most.
struct RunPlan {
  int64_t parameter_count = 0;
  int64_t memory_requested_bytes_max = 0;  // that tensors ask for
  int64_t memory_allocated_bytes_max = 0;
  int64_t memory_reserved_bytes_max = 0;
  int64_t memory_device_bytes_max = 0;
  int64_t memory_allocated_bytes_forward = 0;
  int64_t memory_reserved_bytes_forward = 0;
  int64_t memory_host_bytes_max = 0;
  int64_t memory_node_bytes_max = 0;
  int64_t checkpoint_bytes = 0;
  std::optional<double> step_time_ms;
  std::optional<double> communication_exposed_ms;
  std::optional<double> mfu_percent;
  std::optional<double> hfu_percent;
  std::optional<int64_t> memory_limit_bytes;
  std::optional<int64_t> memory_node_limit_bytes;
  Fit fit = Fit::kUnknown;
  MemoryPeak peak;
  std::vector<PhasePlan> phases;
  std::vector<MemoryMoment> timeline;
  TextList assumptions;
  double plan_time_ms = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("parameter_count", self.parameter_count, "Parameters of the model.", any_value());
    visit("memory_requested_bytes_max", self.memory_requested_bytes_max,
          "What tensors ask for, at the peak.", any_value());
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max,
          "The same as the device's allocator counts it: rounded up on a GPU.", any_value());
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max,
          "What a GPU's allocator takes from the device for it; on the CPU as allocated.",
          any_value());
    visit("memory_device_bytes_max", self.memory_device_bytes_max,
          "Reserved, and what the context and the collectives' buffers take.", any_value());
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward,
          "Allocated at the end of the last micro-batch's forward.", any_value());
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward, "Reserved then.",
          any_value());
    visit("memory_host_bytes_max", self.memory_host_bytes_max,
          "What the rank's process takes of the host's memory, tensors on the CPU included.",
          any_value());
    visit("memory_node_bytes_max", self.memory_node_bytes_max,
          "What all ranks of a node take of its memory.", any_value());
    visit("checkpoint_bytes", self.checkpoint_bytes,
          "Size of a checkpoint's files on the disk, to within 1 kB; 0: the run saves none.",
          any_value());
    visit("step_time_ms", self.step_time_ms,
          "Time of a step; null: not known. An assumption says so where it is uncalibrated.",
          any_value());
    visit("communication_exposed_ms", self.communication_exposed_ms,
          "Of it, in which compute waits for other ranks or the host; null: not calibrated.",
          any_value());
    visit("mfu_percent", self.mfu_percent,
          "Of the device's peak, what the model's products take (see contract/families/flops.h); "
          "null: the peak, or the time, is not known.",
          any_value());
    visit("hfu_percent", self.hfu_percent, "The same with what is recomputed.", any_value());
    visit("memory_limit_bytes", self.memory_limit_bytes, "What the rank may use; null: not known.",
          any_value());
    visit("memory_node_limit_bytes", self.memory_node_limit_bytes,
          "What the ranks of a node may use of its memory; null: not known.", any_value());
    visit("fit", self.fit, "fits, tight, does_not_fit or unknown.", any_value());
    visit("peak", self.peak, "When and with what memory is fullest.", any_value());
    visit("phases", self.phases, "The peak of each phase.", any_value());
    visit(
        "timeline", self.timeline,
        "Moments of the start, the steps, an evaluation and a checkpoint, in their order: of each "
        "equal part the one with most and the one with least. Empty unless asked for.",
        any_value());
    visit("assumptions", self.assumptions, "What was not known and is taken to be so.",
          any_value());
    visit("plan_time_ms", self.plan_time_ms, "Time that the planning took.", any_value());
  }
};

struct PlanAnswer {
  std::optional<RunPlan> plan;
  std::string error;  // why there is none

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("plan", self.plan, "The plan; null: there is none.", any_value());
    visit("error", self.error, "Why there is none; else empty.", any_value());
  }
};

}  // namespace fsdp
