#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/text/fields.h"

// Writes the contract's structs as JSON, from their visit_fields.
namespace fsdp {

// Appends text in quotes, as valid UTF-8 with U+FFFD for other bytes. Escapes control characters.
void append_json_string(std::string& out, std::string_view text);

template <typename T>
void append_json(std::string& out, const T& value);

// An object with its fields in the order of the calls of add().
class JsonObject {
 public:
  template <typename T>
  JsonObject& add(std::string_view name, const T& value) {
    if (!fields_.empty()) fields_ += ',';
    append_json_string(fields_, name);
    fields_ += ':';
    append_json(fields_, value);
    return *this;
  }
  template <Fields T>
  JsonObject& add_fields(const T& value) {
    T::visit_fields(value,
                    [&](const char* name, const auto& member, auto&&...) { add(name, member); });
    return *this;
  }
  std::string text() const { return '{' + fields_ + '}'; }

 private:
  std::string fields_;
};

template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <typename T>
void append_json(std::string& out, const T& value) {
  if constexpr (is_optional<T>) {
    value ? append_json(out, *value) : void(out += "null");
  } else if constexpr (is_variant<T>) {
    std::visit([&](const auto& held) { append_json(out, held); }, value);
  } else if constexpr (std::same_as<T, std::monostate>) {
    out += "null";
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
    append_json_string(out, value.is_auto    ? "auto"
                            : value.is_never ? "never"
                                             : value.path.string());
  } else if constexpr (is_vector<T>) {
    out += '[';
    for (const auto& item : value) {
      if (&item != &value.front()) out += ',';
      append_json(out, item);
    }
    out += ']';
  } else if constexpr (std::same_as<T, JsonObject>) {
    out += value.text();
  } else if constexpr (Fields<T>) {
    out += JsonObject().add_fields(value).text();
  } else {
    append_json_string(out, value);
  }
}

template <typename T>
std::string json_text(const T& value) {
  std::string text;
  append_json(text, value);
  return text;
}

}  // namespace fsdp
