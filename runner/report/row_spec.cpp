#include "runner/report/row_spec.h"

#include <exception>

#include "contract/text/foreign_json.h"

namespace fsdp {

nlohmann::json row_spec(const ComparisonRow& run) {
  try {
    nlohmann::json spec = parse_foreign_json(run.spec);
    return spec.is_object() ? spec : nlohmann::json();
  } catch (const std::exception&) {
    return {};
  }
}

nlohmann::json without(nlohmann::json spec, const JsonPointers& places) {
  for (const nlohmann::json::json_pointer& place : places) {
    if (spec.contains(place)) spec[place.parent_pointer()].erase(place.back());
  }
  return spec;
}

std::string text_of_spec(const ComparisonRow& run, const char* pointer) {
  const nlohmann::json spec = row_spec(run);
  const nlohmann::json::json_pointer place(pointer);
  const bool is_text = spec.contains(place) && spec.at(place).is_string();
  return is_text ? spec.at(place).get<std::string>() : std::string();
}

}  // namespace fsdp
