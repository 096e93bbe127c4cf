#include "contract/text/json.h"

#include "runner/report/formats.h"

namespace fsdp {
namespace {

void append_row(std::string& text, const PreparedReport& prepared, const ReportRow& row) {
  bool first = true;
  for (const Column& column : prepared.columns) {
    text += first ? "{" : ",";
    first = false;
    append_json_string(text, column.name);
    text += ':';
    append_json_value(text, column.value(row));
  }
  text += '}';
}

}  // namespace

void append_json_value(std::string& text, const Value& value) {
  std::visit(
      [&](const auto& known) {
        if constexpr (std::same_as<std::decay_t<decltype(known)>, std::monostate>) {
          text += "null";
        } else {
          append_json(text, known);
        }
      },
      value);
}

// One object, one line a row.
std::string render_json(const PreparedReport& prepared) {
  std::string text = "{\"title\":";
  append_json_string(text, prepared.report.title);
  text += ",\n\"rows\":[";
  for (const ReportRow& row : prepared.rows) {
    text += &row == prepared.rows.data() ? "\n" : ",\n";
    append_row(text, prepared, row);
  }
  text += "],\n\"warnings\":[";
  for (const Warning& warning : prepared.warnings) {
    text += &warning == prepared.warnings.data() ? "\n{\"name\":" : ",\n{\"name\":";
    append_json_string(text, warning.name);
    text += ",\"text\":";
    append_json_string(text, warning.text);
    text += '}';
  }
  text += "],\n\"notes\":[";
  for (const std::string& line : prepared.lines) {
    text += &line == prepared.lines.data() ? "\n" : ",\n";
    append_json_string(text, line);
  }
  return text + "]}\n";
}

}  // namespace fsdp
