#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/report/series.h"

// Between warnings_for() and checks that have a file of their own.
namespace fsdp {

// Runs that finished, of all rows.
Runs finished_runs(Rows rows);

// What each check found in rows that are shown together; empty: nothing.
std::string losses_disagree(Rows rows);
std::string side_by_side(Rows rows);

}  // namespace fsdp
