#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/report/columns.h"

// Rows of several people that should be alike, and are not. Pure.
namespace fsdp {

// The experiment's name where it ran: of `alice/lab`, which was merged from alice, "lab".
std::string own_experiment(const ComparisonRow& run);

// Whose results the run is of; "here" if it ran in this folder.
std::string person_of(const ComparisonRow& run);

// True if a run of the row finished, or if it does not fit, which is a result too.
bool has_result(const ReportRow& row);

struct DifferingRows {
  std::set<const ComparisonRow*> runs;
  std::vector<std::string> lines;  // "* PyTorch 2.9.1, not 2.11.0: bob, carol (4xDDP)."
};

// Returns the rows with a result that differ from most of their experiment's rows in a version or
// a machine, or from most of their point's rows in a setting or an input file. None if all rows are
// of one person. Of values that equally many rows have, the first one counts as most rows'.
DifferingRows differing_rows(const std::vector<ReportRow>& rows);

}  // namespace fsdp
