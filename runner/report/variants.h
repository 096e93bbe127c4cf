#pragma once

#include <vector>

#include "runner/store/comparison.h"

// Runs that are no longer in their experiment's list: made with --set, or before the file was
// edited. Pure.
namespace fsdp {

// Names these rows by what changed against the run of the same point that is in the list, or else
// against the newest one: "4xFSDP [train.steps=20]". Where that is more than kMostNamedKeys keys,
// or no key at all, the run's number stands there too, so that no two rows have one name. Each
// stands behind the rows of its point, and is no value of a doubled key.
void name_variants(std::vector<ComparisonRow>& rows);

}  // namespace fsdp
