#pragma once

#include <string>
#include <vector>

#include "runner/report/columns.h"

// Selects and sorts the rows of a report. Every mistake is a ConfigError.
namespace fsdp {

// Keeps the rows for which every condition holds: "COLUMN OP VALUE" with OP one of = != < <= > >=
// ~. Examples: "ranks >= 4", "memory_allocated_bytes_max < 40 GiB", "point ~ fsdp", "loss_last =".
//
// A column of numbers is compared with a number. Bytes may have a unit (KiB, MiB, GiB), and times
// too (ms, s, min, h). The operators = and != compare text exactly. The operator ~ finds VALUE in
// the text and ignores case. Without VALUE, = and != test if the figure is absent. With VALUE, an
// absent figure meets only !=.
void filter(std::vector<ReportRow>& rows, const std::vector<std::string>& conditions,
            std::span<const Column> columns);

// Sorts by the column "name", or by "-name" for the largest first. Empty: no change. In both
// directions numbers are before text, and absent figures are last.
void sort(std::vector<ReportRow>& rows, std::string name, std::span<const Column> columns);

}  // namespace fsdp
