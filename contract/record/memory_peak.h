#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// A rank's memory peak: its time and its parts, both as planned and as measured.
namespace fsdp {

enum class MemoryPhase { kStart, kForward, kBackward, kOptimizer, kEvaluation, kCheckpoint };

constexpr auto enum_names(MemoryPhase) {
  return std::array{"start"sv,     "forward"sv,    "backward"sv,
                    "optimizer"sv, "evaluation"sv, "checkpoint"sv};
}

enum class MemoryUse {
  kParameters,
  kWhole,
  kGradients,
  kOptimizerState,
  kAttention,
  kMlp,
  kHidden,
  kHead,
  kActivationGradients,
  kBatch,
  kOther,
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

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    const auto use = [&](const char* name, MemoryUse member, const char* sentence) {
      visit(name, self[member], sentence, any_value());
    };
    use("parameters_bytes", MemoryUse::kParameters, "This rank's part of the parameters.");
    use("whole_bytes", MemoryUse::kWhole,
        "Units whose parameters are whole: gathered, or in the dtype that is computed with.");
    use("gradients_bytes", MemoryUse::kGradients, "Gradients of parameters, on their way too.");
    use("optimizer_state_bytes", MemoryUse::kOptimizerState, "What the optimizer keeps.");
    use("attention_bytes", MemoryUse::kAttention, "What attention saves for backward.");
    use("mlp_bytes", MemoryUse::kMlp, "What MLPs save for backward.");
    use("hidden_bytes", MemoryUse::kHidden,
        "What else blocks and the embedding save: the residual stream.");
    use("head_bytes", MemoryUse::kHead, "Logits and what else the head computes with.");
    use("activation_gradients_bytes", MemoryUse::kActivationGradients,
        "What backward computes with: gradients of activations.");
    use("batch_bytes", MemoryUse::kBatch, "Tokens and labels of the step's micro-batches.");
    use("other_bytes", MemoryUse::kOther, "What the optimizer's step, clipping and the rest take.");
  }
};

// The step and the phase at which allocated memory peaked.
struct MemoryPeak {
  static constexpr std::string_view kKind = "memory_peak";
  int64_t step = 0;
  std::string phase;
  std::optional<int64_t> unit;
  int64_t memory_allocated_bytes_max = 0;
  MemoryByUse by_use;

  bool operator==(const MemoryPeak&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, "Optimizer step of the peak; 0: before the first one.", any_value());
    visit("phase", self.phase,
          "start, forward, backward, optimizer, evaluation or checkpoint: what the rank was doing.",
          any_value());
    visit("unit", self.unit, "Which unit of the model it was at; null: none.", any_value());
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max,
          "Allocated then: the most since the rank's start.", any_value());
    MemoryByUse::visit_fields(self.by_use, visit);
  }
};

}  // namespace fsdp
