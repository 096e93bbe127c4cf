#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/fields.h"

// Fingerprints: sums over the tensors of a step. They do not depend on how the step was divided
// among ranks and micro-batches, so they tell where two runs first differ.
namespace fsdp {

// A quantity that has fingerprints. The order is that of a step.
enum class Quantity {
  kInputIds,            // of a row
  kLabels,              // of a row
  kWeight,              // this rank's part, before the step
  kState,               // the same of the optimizer's state
  kForwardWeight,       // whole, as forward reads it
  kActivation,          // what a module gives, of a row
  kLoss,                // of a micro-batch
  kBackwardWeight,      // whole, as backward reads it
  kRepeatedInput,       // what a recomputed module reads the second time, of a row
  kActivationGradient,  // of what a module gives, of a row
  kLocalGradient,       // whole, of this rank, before it is reduced
  kGradient,            // this rank's part, reduced
  kGradientNorm,        // of all gradients
  kClipDivisor,         // of all gradients
  kNewState,            // this rank's part, after the step
  kNewWeight,           // the same
};

constexpr auto enum_names(Quantity) {
  return std::array{"input_ids"sv,      "labels"sv,
                    "weight"sv,         "state"sv,
                    "forward_weight"sv, "activation"sv,
                    "loss"sv,           "backward_weight"sv,
                    "repeated_input"sv, "activation_gradient"sv,
                    "local_gradient"sv, "gradient"sv,
                    "gradient_norm"sv,  "clip_divisor"sv,
                    "new_state"sv,      "new_weight"sv};
}

inline constexpr size_t kProjections = 8;

// Sums of fp64 over a tensor's elements, or over a part of them. The sums of a tensor's parts add
// up to the tensor's.
//
// Element i of the tensor has the sign of bit i % 64 of splitmix64(0, i / 64 % 16381), where 1 is a
// minus. Projection k is the sum of the signed elements with i % 8 = k. A row is [tokens, width],
// and its projection k is the sum over the tokens t with t * 8 / tokens = k. The squares of the
// differences of two tensors' projections estimate the square of the distance between the tensors.
//
// A row has the tokens up to its last label; the rest fills it up. A row of an encoder has its
// input. A row without labels has no fingerprints. Label t belongs to the token that input t gives,
// and is -100 if there is none.
//
// Ranks that have the same part of a tensor write it each, with the same `begin`. Losses and local
// gradients are terms instead. The terms of all ranks and micro-batches add up to the step's sums,
// except for square_sum.
struct Fingerprint {
  Quantity of = Quantity::kInputIds;
  std::string name{};            // of a tensor or module of the model; empty: of the whole step
  std::string state{};           // of a state: "exp_avg"
  std::optional<int64_t> row{};  // of the rank's rows in the step
  int64_t begin = 0;             // of the part in its tensor
  int64_t numel = 0;
  bool is_finite = true;  // false: the sums are 0
  double sum = 0;
  double square_sum = 0;
  std::vector<double> projections = std::vector<double>(kProjections);

  static void visit_fields(auto& self, auto&& visit) {
    visit("of", self.of);
    visit("name", self.name);
    visit("state", self.state);
    visit("row", self.row);
    visit("begin", self.begin);
    visit("numel", self.numel);
    visit("is_finite", self.is_finite);
    visit("sum", self.sum);
    visit("square_sum", self.square_sum, at_least(0));
    visit("projections", self.projections);
  }
};

// The rounding of a run's arithmetic: half the distance of 1 to the next number of a dtype.
struct Roundoff {
  static constexpr double kFp32 = 0x1p-24;
  static constexpr double kWidest = 0x1p-7;

  double compute = kFp32;     // of activations
  double reduction = kFp32;   // of gradients while they are reduced
  double parameters = kFp32;  // of trained weights
  double states = kFp32;      // of the optimizer's states, unless they are quantized

  static void visit_fields(auto& self, auto&& visit) {
    visit("compute", self.compute, from_to(0, kWidest));
    visit("reduction", self.reduction, from_to(0, kWidest));
    visit("parameters", self.parameters, from_to(0, kWidest));
    visit("states", self.states, from_to(0, kWidest));
  }
};

// The first line of a file of fingerprints. A line for each fingerprint follows, and a
// FingerprintsEnd.
struct FingerprintsBegin {
  static constexpr std::string_view kFormat = "fsdp-run fingerprints";
  static constexpr int64_t kVersion = 1;
  std::string format{kFormat};
  int64_t version = kVersion;
  int64_t step = 0;
  int64_t rank = 0;
  int64_t ranks = 1;
  int64_t resumed_from_step = 0;  // the run's beginning is the checkpoint of this step; 0: anew
  bool recomputes = false;        // activation checkpointing
  Roundoff roundoff{};

  static void visit_fields(auto& self, auto&& visit) {
    visit("format", self.format);
    visit("version", self.version);
    visit("step", self.step);
    visit("rank", self.rank);
    visit("ranks", self.ranks);
    visit("resumed_from_step", self.resumed_from_step);
    visit("recomputes", self.recomputes);
    visit("roundoff", self.roundoff);
  }
};

struct FingerprintsEnd {
  int64_t fingerprints = 0;

  static void visit_fields(auto& self, auto&& visit) { visit("fingerprints", self.fingerprints); }
};

}  // namespace fsdp
