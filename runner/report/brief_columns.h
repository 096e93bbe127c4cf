#pragma once

#include <span>
#include <vector>

#include "runner/report/columns.h"

// The few columns that tell most: what differs between rows, memory, speed, loss.
namespace fsdp {

// At most kMostBriefColumns of `all`, with headings and texts that are shorter than the usual ones.
inline constexpr size_t kMostBriefColumns = 8;
std::vector<Column> brief_columns(std::span<const ReportRow> rows, std::span<const Column> all);

// With the heading and the text that it has among them.
Column in_brief(Column column);

// Which one a narrow table goes without first: 1 before 2; 0: it stays.
int goes(const Column& column);

}  // namespace fsdp
