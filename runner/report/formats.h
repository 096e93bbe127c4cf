#pragma once

#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/report/answers.h"
#include "runner/report/columns.h"
#include "runner/report/warnings.h"

// Shared by render() and the formats, which have one file each.
namespace fsdp {

// Rows that follow one another and share a baseline per experiment.
struct Block {
  std::string title{};  // empty if there is only one block
  std::span<const ReportRow> rows{};
  std::string set_up{};           // the set-up that its rows share
  std::vector<Answer> answers{};  // none if its rows are ranks or of several experiments
  FastestRows fastest{};
  SeriesRows least_memory{};  // as of rows_with_least_memory()
};

// The data that a format prints. Rows point into `series` and the report, which must outlive it.
struct PreparedReport {
  const Report& report;
  std::deque<Series> series{};
  std::vector<Column> columns{};           // in order; columns for people have a heading
  bool is_brief = false;                   // whether the columns are brief_columns()
  bool fits_terminal = false;              // table: columns that do not fit are left out
  std::set<std::string> shown_at_first{};  // html: names of columns, others on request; none: all
  std::vector<ReportRow> rows{};
  std::vector<Block> blocks{};  // all of the rows, in their order
  std::vector<Warning> warnings{};
  std::vector<std::string> lines{};    // below the table: explanations of the figures
  std::vector<std::string> reasons{};  // below `lines`: the reasons of runs' ends

  std::vector<std::string> lines_and_reasons() const {
    std::vector<std::string> all = lines;
    all.insert(all.end(), reasons.begin(), reasons.end());
    return all;
  }
};

// Returns the report's data. The kind of rows is the report's, or else usual for the format. Throws
// ConfigError if the report's view has a mistake.
PreparedReport prepare(Format format, const Report& report);

// Returns the runs of the rows, each once, in the order of the rows.
std::vector<const ComparisonRow*> shown_runs(const PreparedReport& prepared);

// Parts of prepare(), each in a file of its own: select the columns that fit the terminal, and
// return the lines below the table.
void keep_columns_that_fit(PreparedReport& prepared);
std::vector<std::string> lines_below(const PreparedReport& prepared);
std::vector<std::string> reasons_below(const PreparedReport& prepared);

// Renders a prepared report. Formats for people show only columns with a heading.
std::string render(Format format, PreparedReport prepared);

std::string render_table(const PreparedReport& prepared);
std::string render_markdown(const PreparedReport& prepared);
std::string render_csv(const PreparedReport& prepared);
std::string render_json(const PreparedReport& prepared);
std::string render_latex(const PreparedReport& prepared);
std::string render_html(const PreparedReport& prepared);

}  // namespace fsdp
