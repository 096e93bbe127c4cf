#pragma once

#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/report/answers.h"
#include "runner/report/columns.h"
#include "runner/report/warnings.h"

// Between render() and the formats, one file each.
namespace fsdp {

// Rows that follow one another and share a baseline per experiment.
struct Block {
  std::string title{};  // empty when there is only one
  std::span<const ReportRow> rows{};
  std::string set_up{};           // what its rows have in common
  std::vector<Answer> answers{};  // none where its rows are ranks, or of several experiments
  FastestRows fastest{};
  SeriesRows least_memory{};  // of which none is better; none where all are as good
};

// Everything that a format prints. Rows point into `series` and into the report, which outlives it.
struct PreparedReport {
  const Report& report;
  std::deque<Series> series{};
  std::vector<Column> columns{};           // in order; those for people have a heading
  bool is_brief = false;                   // the columns
  bool fits_terminal = false;              // the table: columns that are too many were left out
  std::set<std::string> shown_at_first{};  // html: names of columns, others on request; none: all
  std::vector<ReportRow> rows{};
  std::vector<Block> blocks{};  // all of the rows, in their order
  std::vector<Warning> warnings{};
  std::vector<std::string> lines{};    // below the table: what the figures are
  std::vector<std::string> reasons{};  // below those: why runs ended as they did

  std::vector<std::string> lines_and_reasons() const {
    std::vector<std::string> all = lines;
    all.insert(all.end(), reasons.begin(), reasons.end());
    return all;
  }
};

// Rows of the kind that the report asks for, or else that is usual for the format. Throws
// ConfigError on a mistake in the report's view.
PreparedReport prepare(Format format, const Report& report);

// The runs that the rows stand for, each once, in the order of the rows.
std::vector<const ComparisonRow*> shown_runs(const PreparedReport& prepared);

// Of prepare()'s, in files of their own: the columns for which the terminal is wide enough, and
// what stands below the table.
void keep_columns_that_fit(PreparedReport& prepared);
std::vector<std::string> lines_below(const PreparedReport& prepared);
std::vector<std::string> reasons_below(const PreparedReport& prepared);

// Formats for people are given the columns that have a heading.
std::string render(Format format, PreparedReport prepared);

std::string render_table(const PreparedReport& prepared);
std::string render_markdown(const PreparedReport& prepared);
std::string render_csv(const PreparedReport& prepared);
std::string render_json(const PreparedReport& prepared);
std::string render_latex(const PreparedReport& prepared);
std::string render_html(const PreparedReport& prepared);

}  // namespace fsdp
