#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "runner/store/comparison.h"

// The keys of runs in reports, and those that differ between two runs. Pure.
namespace fsdp {

// Texts name at most this many keys and count the others.
inline constexpr size_t kMostNamedKeys = 3;

// Values by dotted name.
using Keys = std::map<std::string, std::string>;

// Returns the keys of `own` that have another value in `other`, with the value in `own`. Leaves out
// paths, and keys with an effect of at most `most`. If two alternatives differ, such as batch.total
// and batch.gradient_accumulation_steps, leaves out one that is null, else the second.
Keys changed_keys(const RunSpec& other, const RunSpec& own, Effect most);

// Names runs outside their experiment's list: made with --set, or before the file was edited.
// Adds the changed keys to the names of these rows: "4xFSDP [train.steps=20]". Each row is compared
// with the listed run of its point, or else with the newest run. Adds the run's number if more than
// kMostNamedKeys differences, or none, are found, or if the name is taken. Moves each row behind
// the listed rows of its series. These rows no longer count as values of a doubled key.
void name_variants(std::vector<ComparisonRow>& rows);

}  // namespace fsdp
