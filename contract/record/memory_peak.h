#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// A rank's memory peak: when it was reached and what used the memory. Plans and events share it.
namespace fsdp {

enum class MemoryPhase { kStart, kForward, kBackward, kOptimizer, kEvaluation, kCheckpoint };

constexpr auto enum_names(MemoryPhase) {
  return std::array{"start"sv,     "forward"sv,    "backward"sv,
                    "optimizer"sv, "evaluation"sv, "checkpoint"sv};
}

// To add a use of memory: add it here and to the names below. Open a MemoryScope
// (trainer/memory/memory_label.h) where it is allocated. tests/hostile/event_model.py has the
// names.
enum class MemoryUse {
  kParameters,           // this rank's part of the parameters
  kWhole,                // whole parameters of units: gathered, converted or dequantized
  kGradients,            // gradients of parameters, also while they are reduced
  kOptimizerState,       // what the optimizer keeps
  kAttention,            // what attention saves for backward
  kMlp,                  // what MLPs save for backward
  kHidden,               // what else blocks and the embedding save, such as the residual stream
  kHead,                 // logits and what else the head computes with
  kActivationGradients,  // gradients of activations, and what else backward computes with
  kBatch,                // tokens and labels of the step's micro-batches
  kOther,                // the optimizer's step, clipping and all the rest
};

constexpr auto enum_names(MemoryUse) {
  return std::array{"parameters"sv,      "whole"sv,     "gradients"sv,
                    "optimizer_state"sv, "attention"sv, "mlp"sv,
                    "hidden"sv,          "head"sv,      "activation_gradients"sv,
                    "batch"sv,           "other"sv};
}
inline constexpr size_t kMemoryUses = enum_names(MemoryUse()).size();

struct MemoryByUse {
  std::array<int64_t, kMemoryUses> bytes{};

  int64_t& operator[](MemoryUse use) { return bytes[static_cast<size_t>(use)]; }
  int64_t operator[](MemoryUse use) const { return bytes[static_cast<size_t>(use)]; }
  bool operator==(const MemoryByUse&) const = default;

  // The fields are parameters_bytes, whole_bytes, ...
  static void visit_fields(auto& self, auto&& visit) {
    static const auto kNames = names_with_unit<MemoryUse>("bytes");
    for (size_t i = 0; i < kMemoryUses; ++i) visit(kNames[i].c_str(), self.bytes[i]);
  }
};

// The step and the phase at which allocated memory peaked.
struct MemoryPeak {
  static constexpr std::string_view kKind = "memory_peak";
  int64_t step = 0;  // optimizer step of the peak; 0: before the first one
  // The rank's phase at the peak, a name of MemoryPhase.
  std::string phase;
  std::optional<int64_t> unit;  // number of the unit that the rank was at; null: none
  // The peak: the most since the rank's start. On a GPU, it is what tensors ask for. The allocator
  // rounds that up.
  int64_t memory_allocated_bytes_max = 0;
  MemoryByUse by_use;

  bool operator==(const MemoryPeak&) const = default;
  // "backward, unit 3"
  std::string moment() const { return unit ? phase + ", unit " + std::to_string(*unit) : phase; }

  static void visit_fields(auto& self, auto&& visit) {
    visit("step", self.step);
    visit("phase", self.phase);
    visit("unit", self.unit);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    MemoryByUse::visit_fields(self.by_use, visit);
  }
};

}  // namespace fsdp
