#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "base/text/fields.h"

// Writes values as CSV (RFC 4180).
namespace fsdp {

// Appends text, in quotes if it holds a comma, a quote or a line break. A ' precedes text that
// begins with a tab, a line break or one of "=+-@": a spreadsheet would take it for a formula.
// Control characters appear as in visible_lines().
void append_csv_text(std::string& out, std::string_view text);

// Appends a value as SQLite prints it: numbers in full, nothing if absent, 0 or 1 for a bool.
template <typename T>
void append_csv(std::string& out, const T& value) {
  if constexpr (is_optional<T>) {
    if (value) append_csv(out, *value);
  } else if constexpr (std::same_as<T, bool>) {
    out += value ? '1' : '0';
  } else if constexpr (std::floating_point<T>) {
    out += shortest(value);
  } else if constexpr (std::integral<T>) {
    out += std::to_string(value);
  } else if constexpr (NamedEnum<T>) {
    append_csv_text(out, name_of(value));
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    append_csv_text(out, value.string());
  } else if constexpr (is_variant<T>) {
    std::visit([&](const auto& held) { append_csv(out, held); }, value);
  } else if constexpr (!std::same_as<T, std::monostate>) {
    append_csv_text(out, value);
  }
}

}  // namespace fsdp
