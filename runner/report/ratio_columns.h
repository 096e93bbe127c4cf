#pragma once

#include <vector>

#include "runner/report/columns.h"

// Columns that compare a row with another row.
namespace fsdp {

// Returns ratios to the baseline.
std::vector<Column> ratio_columns();
// Returns comparisons with the row that has fewest ranks and differs in nothing else.
std::vector<Column> scaling_columns();

}  // namespace fsdp
