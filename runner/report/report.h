#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/html_detail.h"
#include "runner/store/comparison.h"

// A comparison of runs as text. Pure: reads no database and no terminal.
namespace fsdp {

enum class Format { kTable, kMarkdown, kCsv, kJson, kLatex, kHtml };
constexpr auto enum_names(Format) {
  return std::array{"table"sv, "markdown"sv, "csv"sv, "json"sv, "latex"sv, "html"sv};
}

// What a row of the report is: the repeats of a point together, a run, or a rank of a run.
enum class RowKind { kSeries, kRun, kRank };

// What a reader chose. Names of columns are those of columns.h; a mistake is a ConfigError whose
// place is the option. Only `baseline` and `group` change figures; the others say what is shown.
struct View {
  std::vector<std::string> columns{};  // these, in this order; "+name": beside the usual ones
  std::vector<std::string> where{};    // "COLUMN OP VALUE", as in conditions.h
  std::string sort{};                  // "name", or "-name" for the largest first
  std::string baseline{};              // what ratios refer to: a point or a series; else the first
  std::string group{};                 // a block of rows, with a baseline each, per value of it
  bool wide = false;                   // people: every usual column, not the few that tell most
};

struct Report {
  std::string title;
  std::vector<ComparisonRow> rows;  // of runs, in the order shown
  // Absent: people see series, programs runs.
  std::optional<RowKind> row_kind;
  std::vector<RankRow> rank_rows;  // of the same runs; used with RowKind::kRank
  View view;
  std::filesystem::path results;   // where the paths of logs begin
  std::vector<std::string> notes;  // lines below the table, after the report's own
  bool colour = false;             // table: ANSI colours, for a terminal
  size_t width = 0;                // table: of the terminal; 0: of any width
  HtmlDetail html{};               // html: what it shows beside the table
};

// table, markdown and latex are for people: rounded, units in the headings, reasons, warnings and
// notes below. csv (RFC 4180) and json are for programs: every figure in full under a name with its
// unit; what was not measured is empty or null. Ends with a line feed (csv: CR LF).
std::string render(Format format, const Report& report);

// The two runs that `report` holds side by side, a row per column in which they differ.
std::string render_differences(Format format, const Report& report);

}  // namespace fsdp
