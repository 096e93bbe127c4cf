#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>

#include "runner/report/report.h"

// The one table of columns that every format draws on.
namespace fsdp {

// A figure as a program reads it; monostate: not measured.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

enum class Alignment { kLeft, kRight };

// What one row of a report is made of.
struct ReportRow {
  const ComparisonRow* run = nullptr;
  // The run that ratios refer to: the experiment's first that finished; null: none.
  const ComparisonRow* baseline = nullptr;
  const RankRow* rank = nullptr;  // with per_rank
};

struct Column {
  std::string name;     // in csv and json; units last
  std::string heading;  // in table and markdown, '\n' where the table breaks it; empty: not there
  std::string documentation;
  Alignment alignment = Alignment::kRight;
  std::function<Value(const ReportRow&)> value;
  std::function<std::string(const ReportRow&)> text;  // empty when heading is
  // table and markdown show the column when it holds for one of the runs; empty: always.
  std::function<bool(const ComparisonRow&)> is_shown_for{};
};

std::span<const Column> columns();
std::span<const Column> rank_columns();

}  // namespace fsdp
