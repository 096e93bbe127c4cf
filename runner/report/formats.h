#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/report/columns.h"

// Between render() and the formats, one file each.
namespace fsdp {

struct PreparedReport {
  const Report& report;
  std::vector<Column> columns;  // all of them; those for people have a heading
  std::vector<ReportRow> rows;
  std::vector<std::string> lines;  // below the table: reasons, then what the figures are
};

std::string render_table(const PreparedReport& prepared);
std::string render_markdown(const PreparedReport& prepared);
std::string render_csv(const PreparedReport& prepared);
std::string render_json(const PreparedReport& prepared);
std::string render_html(const PreparedReport& prepared);

}  // namespace fsdp
