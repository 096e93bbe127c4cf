#pragma once

#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/report/columns.h"
#include "runner/report/report.h"

// How render() makes a table of a report.
namespace fsdp {

// Rows that follow one another and share a baseline per experiment.
struct RowGroup {
  std::string title{};  // empty if there is only one group
  std::span<const RunRow> rows{};
};

// The rows of a report, compared with their baselines. They point into `series` and the report,
// which must outlive them.
struct Comparison {
  const Report& report;
  RowKind row_kind = RowKind::kSeries;
  std::deque<Series> series{};
  std::vector<RunRow> rows{};  // as the view filters and sorts them
  std::vector<RowGroup> groups{};

  // Returns the runs of the rows, each once, in the order of the rows.
  Runs runs() const;
};

// Throws ConfigError if the report's view has a mistake.
Comparison compare(Format format, const Report& report);

// Returns the warnings about the rows, grouped by their baseline.
std::vector<Warning> warnings_of(const Comparison& comparison);

// The columns that the notes below a table explain.
struct ShownColumns {
  std::set<std::string> names{};
  bool are_brief = false;
  bool is_device_told = false;  // above the rows

  bool has(const std::string& name) const { return names.contains(name); }
};

// Returns the lines below the table: explanations of the figures, and the reasons of runs' ends.
std::vector<std::string> notes_below(const Comparison& comparison, const ShownColumns& shown);
std::vector<std::string> reasons_below(const Comparison& comparison);

// Returns a sentence about the errors of the runs' predictions. Empty: there are none.
std::string predictions_line(std::span<const ComparisonRow* const> runs);

bool is_for_programs(Format format);

// Renders the table of a report. The page also has the report's details, of these series.
std::string render(Format format, const Table& table, const Report& report,
                   const std::deque<Series>& series = {});
std::string render_page(const Table& table, const Report& report, const std::deque<Series>& series);

}  // namespace fsdp
