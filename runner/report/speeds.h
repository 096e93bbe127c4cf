#pragma once

#include "runner/report/series.h"

// Whether one row is faster than another, as far as its steps and repeats can tell. Pure.
namespace fsdp {

enum class Speed { kSlower, kNoDifference, kFaster };

// Quartiles of fewer steps are those of two or three numbers. The lab's shortest row has 4 after
// its warm-up.
inline constexpr int64_t kLeastMeasuredSteps = 4;

// Steps that its times are taken from.
double measured_steps(const ComparisonRow& run);

// Of two rows that finished and have tokens per second. With kLeastForConfidence repeats of both
// a 99 % interval of the ratio says it: of the 95 % ones that tables show every twentieth may be
// wrong, too many for a sentence. With fewer, one that is faster must be so beyond the spread of
// both, of its repeats or of its steps, and by more than a single run's median was seen to move
// when the same run was started again: 5 % on GPUs, on CPUs, which the host shares, 20 %. The
// speed may be that of a rank.
Speed speed_against(
    const Series& row, const Series& other,
    std::optional<double> AttemptSummary::*tokens_per_second = &AttemptSummary::tokens_per_second);

}  // namespace fsdp
