#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/diverge/step_fingerprints.h"

// Finds the first thing, in the order of computation, that two runs computed differently. Pure.
namespace fsdp {

// The kinds of causes, told from what differs and what does not.
enum class Cause {
  kRows,              // other tokens
  kLabels,            // the same tokens with other labels
  kFirstWeights,      // other weights before the first step
  kResume,            // weights or states are not those that the step before has left
  kTooFar,            // no fault: weights are too far apart to tell one from rounding
  kStaleWeights,      // forward or backward reads the weights of the step before
  kGather,            // forward or backward reads other weights than the ranks own
  kPositions,         // some positions of rows: a mask, or their places
  kOneRank,           // only one rank computes it
  kComputation,       // equal inputs give other outputs
  kPrecision,         // equal but for rounding, which is another dtype's
  kFactor,            // a constant factor: a divisor, a scale
  kHead,              // the loss of equal activations, by no simple factor
  kRepeatedForward,   // recomputation computes something else than the first forward
  kMissingReduction,  // a rank has its own gradient
  kReductionFactor,   // a mean for a sum, or a reduction done twice
  kReduction,         // the reduced gradient is not the sum of the ranks' gradients
  kClipping,          // the norm, or the divisor made of it
  kOptimizerState,    // the state's rule: betas, or quantized blocks
  kWeightDecay,       // the update differs along the weight
  kUpdate,            // the update's rule: learning rate, epsilon
  kNotFinite,         // one run has NaN or infinity
};

struct FirstDifference {
  int64_t step = 0;
  Quantity of{};
  std::string name{};   // of the tensor or module
  std::string state{};  // of the optimizer
  Cause cause{};
  std::string at_fault{};               // the run that is wrong by its own figures; empty: unknown
  double relative = 0;                  // size of the difference, relative to what is compared
  double in_rounding = 0;               // the same, in units of rounding
  std::optional<double> ratio{};        // of the other to the one, if that is one number
  std::optional<double> cosine{};       // between both
  int64_t differing = 0, compared = 0;  // tensors or rows of this quantity
  std::vector<int64_t> ranks{};         // at fault or affected, if not all
  std::vector<int64_t> rows{};          // numbers of the rows that differ, if not all
  std::optional<double> from_position{};  // the share of each row before which nothing differs
};

// A run's fingerprints of a step.
struct StepOfRun {
  std::string run;  // its name in messages
  const StepFingerprints& step;
  const StepFingerprints* before = nullptr;  // of the step before; null: unknown
};

// Compares what both have, of one step. Throws std::runtime_error with the names on both sides if
// they have no tensor in common.
std::optional<FirstDifference> first_difference(const StepOfRun& one, const StepOfRun& other);

}  // namespace fsdp
