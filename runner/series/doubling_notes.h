#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/store/comparison.h"

namespace fsdp {

// Returns the point of a doubled key's run without the value: "FSDP" for "FSDP size_per_rank=8",
// "FSDP #2" for its second repeat.
std::string name_without_value(const ComparisonRow& row);

// Returns a line for each series of a doubled key. It has the largest value that fits, and if all
// total batches are equal the step times at the smallest and the largest value. Then it compares
// the series with the experiment's first series of the same key that has a finished run. It
// compares the step times at the largest value that both finished, and the largest values.
std::vector<std::string> doubling_notes(std::span<const ComparisonRow> rows);

// Returns the largest values that fit, for each doubled key: "largest batch.size_per_rank that
// fits: 16 for FSDP, none for DDP".
std::vector<std::string> largest_that_fit(std::span<const ComparisonRow> rows);

}  // namespace fsdp
