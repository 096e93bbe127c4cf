// Writes texts as JSON. The result is UTF-8, whatever the text is.
#include "base/text/json.h"

#include "base/text/utf8.h"

namespace fsdp {

void append_json_string(std::string& out, std::string_view text) {
  const std::string valid = valid_utf8(text);
  out += '"';
  for (std::string_view rest = valid; !rest.empty();) {
    const bool is_plain = rest.front() >= ' ' && rest.front() <= '~';
    if (rest.front() == '"' || rest.front() == '\\') out += '\\';
    const std::string shown = is_plain ? std::string(1, rest.front()) : visible_character(rest);
    // JSON has no escape "\x1b".
    out += !is_plain && shown.starts_with("\\x") ? "\\u00" + shown.substr(2) : shown;
    rest.remove_prefix(utf8_length(rest));
  }
  out += '"';
}

}  // namespace fsdp
