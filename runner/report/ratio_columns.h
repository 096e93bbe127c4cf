#pragma once

#include <vector>

#include "runner/report/columns.h"

// Columns of what a row is against another one.
namespace fsdp {

// To the baseline.
std::vector<Column> ratio_columns();
// To the row with fewest ranks that differs in nothing else.
std::vector<Column> scaling_columns();

}  // namespace fsdp
