#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/store/comparison.h"

namespace fsdp {

// Returns the point of a doubled key's run without the value: "FSDP" for "FSDP size_per_rank=8",
// "FSDP #2" for its second repeat.
std::string name_without_value(const ComparisonRow& row);

// Returns a line for each series of a doubled key. It has the largest value that fits, and the step
// times at the smallest and the largest value. Compares both with the first series in the
// experiment that doubles the same key and has a finished run.
std::vector<std::string> doubling_notes(std::span<const ComparisonRow> rows);

// Returns the largest values that fit, for each doubled key: "largest batch.size_per_rank that
// fits: 16 for FSDP, none for DDP".
std::vector<std::string> largest_that_fit(std::span<const ComparisonRow> rows);

}  // namespace fsdp
