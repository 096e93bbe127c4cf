#pragma once

#include <deque>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/series/series.h"
#include "runner/table/table.h"

// The parts of a report: its rows, and the columns of runs and ranks. The options of `report` and
// its documentation use the same columns.
namespace fsdp {

// To add a column that is neither a key nor a figure, such as training_time_ms: add an entry to
// computed_columns in runner/report/run_columns.cpp. With a heading, --wide shows it. There,
// kOwnTexts has texts for people. kDropOrder has the columns that a narrow terminal leaves out.
// kBriefColumns in runner/report/columns.cpp has the columns of the brief table. Renew
// tests/golden/ with UPDATE_GOLDEN=1.
struct RunColumn : Column {
  std::function<Value(const RunRow&)> value;
  // Returns the text for people. Empty: text_of(), by the column's name.
  std::function<std::string(const RunRow&)> text{};
  // True if the column is shown because of this row. Empty: always shown.
  std::function<bool(const RunRow&)> is_shown_for{};

  std::string text_for(const RunRow& row) const;
  bool is_shown_for_any(std::span<const RunRow> rows) const;
};

std::span<const RunColumn> columns();
std::span<const RunColumn> rank_columns();
// Returns a column for each key of a run, by its dotted name. Reports show such a column on
// request.
std::span<const RunColumn> key_columns();

// Returns the column with that name or heading, or the key with that name. A heading may lack its
// unit. Throws ConfigError (place: `option`) with the nearest name.
const RunColumn& find_column(std::span<const RunColumn> columns, const std::string& name,
                             const std::string& option);

// Returns the heading of `column` with its unit if `name` is one of its headings. Empty if not.
std::string heading_meant(const RunColumn& column, const std::string& name);

// Adds a heading for people if the column has none, made from its name.
RunColumn with_heading(RunColumn column);

// Returns the column with the heading and the text that it has in the brief table.
RunColumn in_brief(RunColumn column);

// Returns the most important of these columns, at most kMostBriefColumns: differences between rows,
// memory, speed, loss.
inline constexpr size_t kMostBriefColumns = 9;
// Returns the heading of percentages in the brief table: "% of\n1 GPU", or "% of\nbaseline" if
// there are several baselines or the name is long.
std::string percent_heading(std::span<const RunRow> rows);
std::vector<RunColumn> brief_columns(std::span<const RunRow> rows, std::span<const RunColumn> all);

// Returns " *" if the row's losses are not comparable with those of most rows.
inline const char* loss_mark(const RunRow& row) { return row.series->has_other_losses ? " *" : ""; }

// Returns the memory limit that the run exceeded: "> 80.0" GiB, "-" if unknown. Empty: the row
// fits.
std::string too_little_memory(const RunRow& row);

// Returns the error of a run's prediction, in percent of the measured value. A positive error means
// that the prediction was too large. nullopt if either is not known or the run did not finish.
std::optional<double> memory_error_percent(const ComparisonRow& run);
std::optional<double> step_time_error_percent(const ComparisonRow& run);

// Keeps the rows for which every condition holds: "COLUMN OP VALUE" with OP one of = != < <= > >=
// ~. Examples: "ranks >= 4", "memory_allocated_bytes_max < 40 GiB", "point ~ fsdp", "loss_last =".
//
// A column of numbers is compared with a number. Bytes may have a unit (KiB, MiB, GiB), and times
// too (ms, s, min, h). The operators = and != compare text exactly. The operator ~ finds VALUE in
// the text and ignores case. Without VALUE, = and != test if the figure is absent. With VALUE, an
// absent figure meets only !=. Throws ConfigError (place: --where).
void filter(std::vector<RunRow>& rows, const std::vector<std::string>& conditions,
            std::span<const RunColumn> columns);

// Sorts by the column "name", or by "-name" for the largest first. Empty: no change. In both
// directions numbers are before text, and absent figures are last.
void sort(std::vector<RunRow>& rows, std::string name, std::span<const RunColumn> columns);

// Returns a page that explains each column.
std::string columns_reference();

// --- how render() makes a table of a report ---

// Rows that follow one another and share a baseline per experiment.
struct RowGroup {
  std::string title{};  // empty if there is only one group
  std::vector<RunRow> rows{};
};

// The rows of a report, compared with their baselines. They point into `series` and the report,
// which must outlive them.
struct ReportRows {
  const Report& report;
  RowKind row_kind = RowKind::kSeries;
  std::deque<Series> series{};
  std::vector<RunRow> rows{};  // as the view filters and sorts them
  std::vector<RowGroup> groups{};

  // Returns the runs of the rows, each once, in the order of the rows.
  Runs runs() const;
};

// Throws ConfigError if the report's view has a mistake.
ReportRows compare(RowKind row_kind, const Report& report);

// Returns the warnings about the rows, grouped by their baseline.
std::vector<Warning> warnings_of(const ReportRows& comparison);

// The columns that the notes below a table explain.
struct ShownColumns {
  std::set<std::string> names{};
  bool are_brief = false;
  bool has_baseline_in_heading = false;
  bool is_device_told = false;  // true: the lines above the rows name the device

  bool has(const std::string& name) const { return names.contains(name); }
};

// Returns the lines below the rows: what marks mean, and in a brief table what its headings mean.
std::vector<std::string> legend_below(const RowGroup& group, const ShownColumns& shown);
// Returns what to do about what the rows of one experiment leave open: at most two commands.
std::vector<Answer> next_steps(Rows rows);
// Returns the lines below the table: explanations of the figures, and the reasons of runs' ends.
std::vector<std::string> notes_below(const ReportRows& comparison, const ShownColumns& shown);
std::vector<std::string> reasons_below(const ReportRows& comparison, const ShownColumns& shown);

// Returns a sentence about the errors of the runs' predictions. Empty: there are none, or, if
// `are_brief`, they are small.
std::string predictions_line(std::span<const ComparisonRow* const> runs, bool are_brief);

bool is_for_programs(Format format);

// Renders the table of a report. The page also shows details of the runs. It uses `series` for the
// names of runs, for scaling and for the unit of speed.
std::string render(Format format, const Table& table, const Report& report,
                   const std::deque<Series>& series = {});
std::string render_page(const Table& table, const Report& report, const std::deque<Series>& series);

}  // namespace fsdp
