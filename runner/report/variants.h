#pragma once

#include <vector>

#include "runner/store/comparison.h"

// Names runs outside their experiment's list: made with --set, or before the file was edited. Pure.
namespace fsdp {

// Adds the changed keys to the names of these rows: "4xFSDP [train.steps=20]". Each is compared
// with the listed run of its point, or else with the newest run. The run's number is added if more
// than kMostNamedKeys differences, or none, are found, or if the name is taken. Each row follows
// the listed rows of its point, and is not a value of a doubled key.
void name_variants(std::vector<ComparisonRow>& rows);

}  // namespace fsdp
