#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/store/comparison.h"

namespace fsdp {

// The point of a doubled key's run without the value: "FSDP" of "FSDP size_per_rank=8", "FSDP #2"
// of its second repeat.
std::string name_without_value(const ComparisonRow& row);

// A line for each doubled key's series among the rows: the largest value that fits, how the step
// time changes up to there, and how both compare with the experiment's first series of that key.
std::vector<std::string> doubling_notes(std::span<const ComparisonRow> rows);

// For each doubled key the largest values that fit: "largest batch.size_per_rank: 16 (FSDP), none
// (DDP)".
std::vector<std::string> largest_that_fit(std::span<const ComparisonRow> rows);

}  // namespace fsdp
