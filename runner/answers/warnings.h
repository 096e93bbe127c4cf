#pragma once

#include <vector>

#include "runner/series/series.h"
#include "runner/table/table.h"

// Finds problems of a comparison, each with a remedy. Pure.
namespace fsdp {

// Returns the warnings about rows that are shown together, in groups that share a baseline. Each
// warning appears once, with its findings in every group.
std::vector<Warning> warnings_for(const std::vector<SeriesRows>& groups);

}  // namespace fsdp
