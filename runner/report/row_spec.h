#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "runner/store/comparison.h"

namespace fsdp {

// What the run was told to do, which others may have written; null where it cannot be read.
nlohmann::json row_spec(const ComparisonRow& run);

// The text at a place of it, such as "/model/source"; empty where there is none.
std::string text_of_spec(const ComparisonRow& run, const char* pointer);

// The same without these places of it, where they are.
using JsonPointers = std::vector<nlohmann::json::json_pointer>;
nlohmann::json without(nlohmann::json spec, const JsonPointers& places);

}  // namespace fsdp
