#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Words for messages about records of JSON.
namespace fsdp {

// Describes a text that simdjson refuses: "is not JSON: it holds NaN, ...".
std::string json_problem(std::string_view json, simdjson::error_code error);

// "a list", "a number".
std::string_view type_name(const simdjson::dom::element& value);

// A key that the object has twice. JSON readers differ in the value they take.
std::optional<std::string> repeated_key(const simdjson::dom::object& object);

// "'id', 'messages' (a list)"; "no columns" if there are none.
std::string list_of_keys(const simdjson::dom::object& object);
std::string list_of_names(const std::vector<std::string>& names);

}  // namespace fsdp
