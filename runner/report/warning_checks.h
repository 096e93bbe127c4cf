#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/report/series.h"

// Checks of warnings_for() that have a file of their own.
namespace fsdp {

// Returns the finished runs of all rows.
Runs finished_runs(Rows rows);

// Return the findings of a check in rows that are shown together; empty: nothing.
std::string losses_disagree(Rows rows);
std::string side_by_side(Rows rows);

}  // namespace fsdp
