#include "contract/text/csv.h"

#include "runner/report/formats.h"

namespace fsdp {

std::string render_csv(const PreparedReport& prepared) {
  std::string text;
  for (const Column& column : prepared.columns) {
    if (!text.empty()) text += ',';
    append_csv(text, column.name);
  }
  text += "\r\n";
  for (const ReportRow& row : prepared.rows) {
    for (const Column& column : prepared.columns) {
      if (&column != &prepared.columns.front()) text += ',';
      append_csv(text, column.value(row));
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace fsdp
