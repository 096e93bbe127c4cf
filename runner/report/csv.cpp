#include "runner/report/formats.h"

namespace fsdp {
namespace {

struct CsvText {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return shortest(value); }
  std::string operator()(const std::string& value) const {
    if (value.find_first_of(",\"\r\n") == std::string::npos) return value;
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"') quoted += '"';
      quoted += c;
    }
    return quoted + '"';
  }
};

}  // namespace

std::string render_csv(const PreparedReport& prepared) {
  std::string text;
  for (const Column& column : prepared.columns) {
    if (!text.empty()) text += ',';
    text += column.name;
  }
  text += "\r\n";
  for (const ReportRow& row : prepared.rows) {
    bool first = true;
    for (const Column& column : prepared.columns) {
      if (!first) text += ',';
      first = false;
      text += std::visit(CsvText(), column.value(row));
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace fsdp
