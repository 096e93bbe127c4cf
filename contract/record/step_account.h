#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// The parts of the time of a rank's step. Plans and events share them.
namespace fsdp {

// Parts of a step's time. Each moment of the stream that computes (on the CPU: of the calling
// thread) belongs to one part, so parts add up to the step.
//
// To add a part: add it here and to the names below, with its sentence in runner/store/figures.h
// and its words in runner/answers/why.cpp. Open a WorkScope (trainer/kernels/work.h) where the work
// is issued. tests/hostile/event_model.py has the names.
enum class TimePart {
  kProductsForward,   // matrix products with weights
  kProductsBackward,  // the same, also of recomputation
  kAttentionForward,
  kAttentionBackward,
  kKernelsForward,  // what else modules compute
  kKernelsBackward,
  kAllGatherForward,  // computation waits for whole parameters
  kAllGatherBackward,
  kReduceScatter,  // computation waits for shards of gradients
  kAllReduce,      // computation waits for sums over replicas or ranks
  kSlowerRanks,    // the part of these waits in which another rank had not come yet
  kCopies,         // between device and host
  kConversion,     // conversions of parameters and gradients, and their sums over micro-batches
  kOptimizer,
  kClipping,  // norms of gradients
  kData,
  kOther,
};

constexpr auto enum_names(TimePart) {
  return std::array{"products_forward"sv,
                    "products_backward"sv,
                    "attention_forward"sv,
                    "attention_backward"sv,
                    "kernels_forward"sv,
                    "kernels_backward"sv,
                    "exposed_all_gather_forward"sv,
                    "exposed_all_gather_backward"sv,
                    "exposed_reduce_scatter"sv,
                    "exposed_all_reduce"sv,
                    "slower_ranks"sv,
                    "copies"sv,
                    "conversion"sv,
                    "optimizer"sv,
                    "clipping"sv,
                    "data"sv,
                    "other_work"sv};
}
inline constexpr size_t kTimeParts = enum_names(TimePart()).size();

// Returns the part of backward if `part` is the same work in forward; else `part`.
constexpr TimePart in_backward(TimePart part) {
  switch (part) {
    case TimePart::kProductsForward:
      return TimePart::kProductsBackward;
    case TimePart::kAttentionForward:
      return TimePart::kAttentionBackward;
    case TimePart::kKernelsForward:
      return TimePart::kKernelsBackward;
    case TimePart::kAllGatherForward:
      return TimePart::kAllGatherBackward;
    default:
      return part;
  }
}

// True if computation waits for a collective.
constexpr bool is_collective(TimePart part) {
  return part >= TimePart::kAllGatherForward && part <= TimePart::kAllReduce;
}

struct TimeByPart {
  std::array<double, kTimeParts> milliseconds{};

  double& operator[](TimePart part) { return milliseconds[static_cast<size_t>(part)]; }
  double operator[](TimePart part) const { return milliseconds[static_cast<size_t>(part)]; }
  bool operator==(const TimeByPart&) const = default;

  // The fields are products_forward_ms, ...
  static void visit_fields(auto& self, auto&& visit) {
    for (size_t i = 0; i < kTimeParts; ++i) visit(field(i), self.milliseconds[i]);
  }
  // Returns the name of the part's field.
  static const char* field(size_t part) {
    static const auto kNames = names_with_unit<TimePart>("ms");
    return kNames[part].c_str();
  }
};

// The time of one step of one rank, by parts.
struct StepAccount {
  static constexpr std::string_view kKind = "step_account";
  int64_t step = 0;         // number of the optimizer step
  double step_time_ms = 0;  // the sum of the parts
  // Time with a collective under way for which computation did not wait.
  double hidden_communication_ms = 0;
  TimeByPart parts{};

  bool operator==(const StepAccount&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("step_time_ms", self.step_time_ms);
    visit("hidden_communication_ms", self.hidden_communication_ms);
    TimeByPart::visit_fields(self.parts, visit);
  }
};

}  // namespace fsdp
