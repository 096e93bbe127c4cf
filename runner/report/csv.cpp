#include "contract/text/csv.h"

#include "runner/report/formats.h"

namespace fsdp {
namespace {

void append_value(std::string& out, const Value& value) {
  std::visit(
      [&](const auto& known) {
        if constexpr (!std::same_as<std::decay_t<decltype(known)>, std::monostate>) {
          append_csv(out, known);
        }
      },
      value);
}

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
      append_value(text, column.value(row));
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace fsdp
