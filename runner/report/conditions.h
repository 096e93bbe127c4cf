#pragma once

#include <string>
#include <vector>

#include "runner/report/columns.h"

// Which rows are shown, and in which order. Every mistake is a ConfigError.
namespace fsdp {

// Keeps the rows for which every condition holds: "COLUMN OP VALUE" with OP one of = != < <= > >=
// ~, for instance "ranks >= 4", "memory_allocated_bytes_max < 40 GiB", "point ~ fsdp", "loss_last
// =".
//
// A column of numbers is compared with a number, of which bytes may have a unit (KiB, MiB, GiB) and
// times too (ms, s, min, h). Text is compared by = and != as it is, and by ~ (holds VALUE, upper
// and lower case alike). Without VALUE, = and != ask whether the figure is absent; apart from that
// an absent figure meets != only.
void filter(std::vector<ReportRow>& rows, const std::vector<std::string>& conditions,
            std::span<const Column> columns);

// By the column "name", or "-name" for the largest first; empty: as they are. Numbers stand before
// text, and what is absent is last, in both directions.
void sort(std::vector<ReportRow>& rows, std::string name, std::span<const Column> columns);

}  // namespace fsdp
