#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/html_detail.h"
#include "runner/store/comparison.h"

// A comparison of runs as text. Pure: reads no database and no terminal.
namespace fsdp {

enum class Format { kTable, kMarkdown, kCsv, kJson, kHtml };
constexpr auto enum_names(Format) {
  return std::array{"table"sv, "markdown"sv, "csv"sv, "json"sv, "html"sv};
}

struct Report {
  std::string title;
  std::vector<ComparisonRow> rows;  // in the order shown
  bool per_rank = false;            // a row per rank instead of one per run
  std::vector<RankRow> rank_rows;   // of the same runs; used with per_rank
  std::filesystem::path results;    // where the paths of logs begin
  std::vector<std::string> notes;   // lines below the table, after the report's own
  bool colour = false;              // table: ANSI colours, for a terminal
  HtmlDetail html{};                // html: what it shows beside the table
};

// table and markdown are for people: rounded, units in the headings, reasons and notes below.
// csv (RFC 4180) and json are for programs: every figure in full under a name with its unit; what
// was not measured is empty or null. Ends with a line feed (csv: CR LF).
std::string render(Format format, const Report& report);

}  // namespace fsdp
