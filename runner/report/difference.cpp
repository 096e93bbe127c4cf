#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/text/utf8.h"
#include "runner/answers/answers.h"
#include "runner/report/comparison.h"
#include "runner/table/number_text.h"

// Shows two runs side by side, with a row for each column that differs.
namespace fsdp {
namespace {

// Columns that name a run, and so differ between any two runs.
constexpr std::array<std::string_view, 11> kNames = {
    "point", "series",  "repeat", "position",        "run",        "current",
    "hash8", "attempt", "folder", "started_unix_ms", "reason_rank"};

std::vector<Column> columns_for(const Report& report) {
  return {Column{"column", "column", "Name of the column.", true},
          Column{"first", visible_line(report.rows[0].point), "Its figure."},
          Column{"second", visible_line(report.rows[1].point), "Its figure."},
          Column{"ratio", "ratio", "The second figure / the first."}};
}

// Returns the column's figures of both runs, and the second divided by the first.
Row difference_row(const RunColumn& column, const RunRow& first, const RunRow& second) {
  const Value one = column.value(first), other = column.value(second);
  const std::optional<double> from = number_of(one), to = number_of(other);
  const bool has_ratio = from && to && *from != 0;
  const auto quotient = has_ratio ? std::optional(*to / *from) : std::nullopt;
  return {.cells = {{column.name, with_heading(column).heading_line()},
                    {one, column.text_for(first)},
                    {other, column.text_for(second)},
                    {to_value(quotient), ratio(quotient)}}};
}

}  // namespace

std::string render_differences(Format format, const Report& report) {
  if (report.rows.size() != 2) throw std::logic_error("two runs are compared");
  const std::deque<Series> series = series_of(report.rows);
  const RunRow first{.run = &report.rows[0], .series = &series.front()};
  const RunRow second{.run = &report.rows[1], .series = &series.back()};
  Block block;
  for (const RunColumn& column : columns()) {
    if (std::ranges::find(kNames, column.name) != kNames.end()) continue;
    if (column.value(first) == column.value(second)) continue;
    block.rows.push_back(difference_row(column, first, second));
  }
  SeriesRows compared;
  for (const Series& one : series) compared.push_back(&one);
  const Table table{.title = report.title,
                    .label = report.rows[0].experiment,
                    .columns = columns_for(report),
                    .blocks = {std::move(block)},
                    .warnings = warnings_for({compared}),
                    .notes = report.notes};
  return render(format, table, report);
}

}  // namespace fsdp
