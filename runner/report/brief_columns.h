#pragma once

#include <span>
#include <vector>

#include "runner/report/columns.h"

// The most important columns: differences between rows, memory, speed, loss.
namespace fsdp {

// Returns at most kMostBriefColumns of `all`, with shorter headings and texts than usual.
inline constexpr size_t kMostBriefColumns = 8;
std::vector<Column> brief_columns(std::span<const ReportRow> rows, std::span<const Column> all);

// Returns the column with its brief heading and text, if it has them.
Column in_brief(Column column);

// Returns the order in which a narrow table leaves columns out: 1 before 2; 0: never.
int goes(const Column& column);

}  // namespace fsdp
