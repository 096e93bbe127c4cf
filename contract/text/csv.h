#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "contract/text/fields.h"

// Writes values as CSV (RFC 4180).
namespace fsdp {

// Quoted where it holds a comma, a quote or a line's end. Text that a spreadsheet would take for a
// formula, as it begins with = + - @ or white space, has a ' before it; what a terminal would obey
// is shown as visible_lines does.
void append_csv_text(std::string& out, std::string_view text);

// A value as SQLite would print it: numbers in full, nothing for what is absent, truth as 0 or 1.
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
