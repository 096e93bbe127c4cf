#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/series/series.h"

// Finds rows of several people that should be alike but differ. Pure.
namespace fsdp {

// Returns the experiment's original name: "lab" for `alice/lab`, which was merged from alice.
std::string own_experiment(const ComparisonRow& run);

// Returns the name of the person that ran it; "here" if it ran in this folder.
std::string person_of(const ComparisonRow& run);

// True if a run of the row finished, or if it does not fit, which is a result too.
bool has_result(const RunRow& row);

struct DifferingRows {
  std::set<const ComparisonRow*> runs;
  std::vector<std::string> lines;  // "* PyTorch 2.9.1, not 2.11.0: bob, carol (4xDDP)."
};

// Returns rows with a result that differ from most others. Versions and machines are compared with
// the experiment's rows, settings and input files with the point's. Returns none if all rows are of
// one person. The first value counts as most rows' if equally many rows have another.
DifferingRows differing_rows(const std::vector<RunRow>& rows);

}  // namespace fsdp
