#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include "contract/text/fields.h"

// Writes the contract's structs as JSON, from their visit_fields.
namespace fsdp {

// Valid UTF-8, with U+FFFD for bytes that are not; what a terminal would obey is escaped.
void append_json_string(std::string& out, std::string_view text);

template <typename T>
void append_json(std::string& out, const T& value) {
  if constexpr (is_optional<T>) {
    value ? append_json(out, *value) : void(out += "null");
  } else if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::floating_point<T>) {
    out += std::isfinite(value) ? shortest(value) : "null";
  } else if constexpr (std::integral<T>) {
    out += std::to_string(value);
  } else if constexpr (NamedEnum<T>) {
    append_json_string(out, name_of(value));
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    append_json_string(out, value.string());
  } else if constexpr (std::same_as<T, AutoOrPath>) {
    append_json_string(out, value.is_auto ? "auto" : value.path.string());
  } else if constexpr (std::same_as<T, TextList>) {
    out += '[';
    for (const std::string& item : value) {
      if (&item != &value.front()) out += ',';
      append_json_string(out, item);
    }
    out += ']';
  } else if constexpr (Fields<T>) {
    out += '{';
    bool first = true;
    T::visit_fields(value, [&](const char* name, const auto& member, auto&&...) {
      if (!first) out += ',';
      first = false;
      append_json_string(out, name);
      out += ':';
      append_json(out, member);
    });
    out += '}';
  } else {
    append_json_string(out, value);
  }
}

}  // namespace fsdp
