#pragma once

#include <optional>

#include "runner/diverge/first_difference.h"
#include "runner/diverge/pairs.h"

// Descriptions of differences, with the causes that a pair of tensors or rows alone tells. Pure.
namespace fsdp {

// Describes how a pair differs: by `size`, where rounding differs by `unit`.
// A run that alone is not finite is the cause.
FirstDifference described(const StepOfRun& one_run, const StepOfRun& other_run, const Pair& pair,
                          Cause cause, double size, double unit);

// Returns the first tensor that ranks of the run should have alike, but do not.
std::optional<FirstDifference> disagreement(const StepOfRun& run, Quantity of, Cause cause,
                                            double unit);

// Returns what the rows of a module that differ by more than `most` have in common. nullopt if no
// row does.
std::optional<FirstDifference> rows_apart(const StepOfRun& one, const StepOfRun& other,
                                          const Pairs& module, double most, double unit);

// True if the difference has the size of a narrow dtype's rounding, and nothing else changed.
bool is_rounding(const FirstDifference& found);

}  // namespace fsdp
