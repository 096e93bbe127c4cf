#include "contract/data/csv_fields.h"

#include <algorithm>

namespace fsdp {
namespace {

// Reads a field after its opening quote. Returns false if the closing quote is missing.
bool read_quoted(std::string_view& rest, std::string& field) {
  while (true) {
    const size_t length = rest.find('"');
    if (length == std::string_view::npos) return false;
    field += rest.substr(0, length);
    rest.remove_prefix(length + 1);
    if (!rest.starts_with('"')) return true;
    field += '"';
    rest.remove_prefix(1);
  }
}

}  // namespace

std::string split_csv_record(std::string_view rest, std::vector<std::string>& fields) {
  size_t count = 0;
  while (true) {
    if (count == fields.size()) fields.emplace_back();
    std::string& field = fields[count++];
    field.clear();
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      if (!read_quoted(rest, field)) return "a quoted field without its closing quote";
    } else {
      const size_t length = std::min(rest.find_first_of(",\r\n\""), rest.size());
      field = rest.substr(0, length);
      rest.remove_prefix(length);
      if (rest.starts_with('"')) return "a quote inside a field that does not start with one";
    }
    if (!rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  fields.resize(count);
  const bool is_at_end = rest.empty() || rest == "\n" || rest == "\r\n";
  return is_at_end ? "" : "text after a closing quote";
}

size_t csv_record_length(std::string_view text, size_t most) {
  bool is_quoted = false;
  const size_t end = std::min(text.size(), most);
  for (size_t i = 0; i < end;) {
    const size_t found = is_quoted ? text.find('"', i) : text.find_first_of("\"\n", i);
    if (found == std::string_view::npos || found >= end) break;
    if (text[found] == '\n') return found + 1;
    is_quoted = !is_quoted;
    i = found + 1;
  }
  return is_quoted || text.size() > most ? std::string_view::npos : text.size();
}

}  // namespace fsdp
