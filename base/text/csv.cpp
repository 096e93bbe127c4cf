// Writes texts as CSV. A text that a spreadsheet would take for a formula gets a '.
#include "base/text/csv.h"

#include "base/text/utf8.h"

namespace fsdp {

namespace {

void append_quoted(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace

void append_csv_text(std::string& out, std::string_view text) {
  std::string shown = visible_lines(text);
  constexpr std::string_view kBeginnings = "=+-@\t\r\n";
  if (!text.empty() && kBeginnings.find(text.front()) != std::string_view::npos) {
    shown.insert(0, 1, '\'');
  }
  append_quoted(out, shown);
}
}  // namespace fsdp
