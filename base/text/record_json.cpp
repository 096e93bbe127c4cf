#include "base/text/record_json.h"

#include <algorithm>

#include "base/text/foreign_json.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

// Finds the escape of half a character, \ud83d without its other half; empty if there is none.
std::string_view lone_surrogate(std::string_view json) {
  const auto is_half = [&](size_t at, std::string_view thirds) {
    const std::string_view escape = json.substr(std::min(at, json.size()), 6);
    return escape.size() == 6 && escape.starts_with("\\u") && (escape[2] | 32) == 'd' &&
           thirds.find(static_cast<char>(escape[3] | 32)) != std::string_view::npos;
  };
  for (size_t at = 0; (at = json.find('\\', at)) != std::string_view::npos;) {
    if (is_half(at, "89ab") && is_half(at + 6, "cdef")) {
      at += 12;
    } else if (is_half(at, "89abcdef")) {
      return json.substr(at, 6);
    } else {
      at += 2;
    }
  }
  return "";
}

// Returns a number that Python writes and JSON lacks, outside of strings; empty if there is none.
std::string_view unknown_number(std::string_view json) {
  bool is_quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_quoted && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted) {
      for (const std::string_view number : {"NaN", "Infinity"}) {
        if (json.substr(i).starts_with(number)) return number;
      }
    }
  }
  return "";
}

void append_name(std::string& list, std::string_view name, std::string_view of_what) {
  constexpr size_t kMostOfName = 60;
  if (list.size() > kMostOfMessage) return;
  list += list.empty() ? "'" : ", '";
  list += shortened(name, kMostOfName);
  list += "'";
  list += of_what;
}

}  // namespace

std::string json_problem(std::string_view json, simdjson::error_code error) {
  if (const std::string_view half = lone_surrogate(json); !half.empty()) {
    return "holds " + std::string(half) +
           ", half of a surrogate pair, which is no character; write the whole character, or leave "
           "it out";
  }
  if (const std::string_view number = unknown_number(json); !number.empty()) {
    return "is not JSON: it holds " + std::string(number) +
           ", which JSON does not know; write null";
  }
  int64_t open = 0;
  visit_json_brackets(json, [&](size_t, int64_t depth) {
    open = depth;
    return true;
  });
  if (error == simdjson::DEPTH_ERROR) {
    return "is not JSON of at most " + std::to_string(kDeepestJson) + " levels";
  }
  if (error == simdjson::UNCLOSED_STRING) return "is not JSON: a text in it does not end";
  if (error == simdjson::UNESCAPED_CHARS) {
    return "is not JSON: a text in it has a control character that is not escaped";
  }
  if (error == simdjson::STRING_ERROR) return "is not JSON: a text in it has an unknown escape";
  if (error == simdjson::NUMBER_ERROR) return "is not JSON: it holds a number that is none";
  if (open > 0) return "is not JSON: it ends before its object does";
  return "is not JSON: a bracket, comma, colon or quote is missing or too many";
}

std::string_view type_name(const simdjson::dom::element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "text";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

std::optional<std::string> repeated_key(const simdjson::dom::object& object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object) keys.push_back(key);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  return twice == keys.end() ? std::nullopt : std::optional<std::string>(*twice);
}

std::string list_of_keys(const simdjson::dom::object& object) {
  std::string list;
  for (const auto& [key, value] : object) {
    append_name(list, key, value.is_array() ? " (a list)" : "");
  }
  return list.empty() ? "no columns" : list;
}

std::string list_of_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) append_name(list, name, "");
  return list.empty() ? "no columns" : list;
}

}  // namespace fsdp
