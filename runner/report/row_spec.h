#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "runner/store/comparison.h"

namespace fsdp {

// Returns the run's specification, written here or elsewhere. Null if it cannot be read.
nlohmann::json row_spec(const ComparisonRow& run);

// Returns the text at a place of the specification, such as "/model/source". Empty: there is none.
std::string text_of_spec(const ComparisonRow& run, const char* pointer);

// Returns `spec` without these places.
using JsonPointers = std::vector<nlohmann::json::json_pointer>;
nlohmann::json without(nlohmann::json spec, const JsonPointers& places);

}  // namespace fsdp
