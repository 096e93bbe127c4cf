#include <algorithm>
#include <array>
#include <stdexcept>

#include "contract/text/utf8.h"
#include "runner/report/formats.h"
#include "runner/report/member_columns.h"
#include "runner/report/number_text.h"

// Shows two runs side by side, with a row for each column that differs.
namespace fsdp {

struct Difference {
  Column column;  // with a heading
  ReportRow first, second;
};

namespace {

using enum Alignment;

// Columns that name a run, and so differ between any two runs.
constexpr std::array<std::string_view, 11> kNames = {
    "point", "series",  "repeat", "position",        "run",        "current",
    "hash8", "attempt", "folder", "started_unix_ms", "reason_rank"};

std::vector<Difference> differences(const ReportRow& first, const ReportRow& second) {
  std::vector<Difference> found;
  for (const Column& column : columns()) {
    if (std::ranges::find(kNames, column.name) != kNames.end()) continue;
    if (column.value(first) == column.value(second)) continue;
    found.push_back({.column = with_heading(column), .first = first, .second = second});
  }
  return found;
}

// The second run's figure divided by the first's.
std::optional<double> second_to_first(const ReportRow& row) {
  const Difference& difference = *row.difference;
  const std::optional<double> first = number_of(difference.column.value(difference.first));
  const std::optional<double> second = number_of(difference.column.value(difference.second));
  if (!first || !second || *first == 0) return std::nullopt;
  return *second / *first;
}

// Returns the column of one of the two runs.
Column column_of(const std::string& name, ReportRow Difference::*side, const ComparisonRow& run) {
  return {name,
          visible_line(run.point),
          "Its figure.",
          kRight,
          [side](auto& row) { return row.difference->column.value(row.difference->*side); },
          [side](auto& row) { return text_of(row.difference->column, row.difference->*side); }};
}

std::vector<Column> columns_of(const Report& report) {
  return {
      {"column", "column", "Name of the column.", kLeft,
       [](auto& row) { return Value(row.difference->column.name); },
       [](auto& row) { return printed_heading(row.difference->column); }},
      column_of("first", &Difference::first, report.rows[0]),
      column_of("second", &Difference::second, report.rows[1]),
      {"ratio", "ratio", "The second figure / the first.", kRight,
       [](auto& row) { return to_value(second_to_first(row)); },
       [](auto& row) { return ratio(second_to_first(row)); }},
  };
}

}  // namespace

std::string render_differences(Format format, const Report& report) {
  if (report.rows.size() != 2) throw std::logic_error("two runs are compared");
  const std::deque<Series> series = series_of(report.rows);
  const ReportRow first{.run = &report.rows[0], .series = &series.front()};
  const ReportRow second{.run = &report.rows[1], .series = &series.back()};
  const std::vector<Difference> found = differences(first, second);
  PreparedReport prepared{.report = report, .columns = columns_of(report), .lines = report.notes};
  for (const Difference& difference : found) {
    prepared.rows.push_back({.run = &report.rows[0], .difference = &difference});
  }
  prepared.blocks = {{.rows = prepared.rows}};
  SeriesRows compared;
  for (const Series& one : series) compared.push_back(&one);
  prepared.warnings = warnings_for({compared});
  return render(format, std::move(prepared));
}

}  // namespace fsdp
