// Writes the keys of experiment files as a JSON Schema, for editors. The schema accepts every file
// that the loader accepts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "contract/families/family.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {

// The schema without the keys of a run. A description is the path of a key in experiment_keys().
extern const char* const kSchemaFrame;  // schema_frame.json

namespace {

using Json = nlohmann::ordered_json;

Json reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

// Replaces the path of each key by its documentation.
void describe(Json& schema) {
  for (auto& [name, part] : schema.items()) {
    if (part.is_structured()) describe(part);
    if (name != "description") continue;
    const auto key = std::ranges::find(experiment_keys(), std::string(part), &ExperimentKey::path);
    part = fmt::format("{}\n{}", key->documentation, key->type);
  }
}

// --- values ---

Json limit(double number) {
  constexpr double kLargestExactInteger = 9007199254740992;  // 2^53
  const bool is_integer = number == std::floor(number) && number <= kLargestExactInteger;
  return is_integer ? Json(static_cast<int64_t>(number)) : Json(number);
}

Json number_schema(const char* type, const Range& range) {
  Json schema = {{"type", Json::array({type})}};
  if (std::isfinite(range.minimum)) {
    schema[range.minimum_excluded ? "exclusiveMinimum" : "minimum"] = limit(range.minimum);
  }
  if (std::isfinite(range.maximum)) {
    schema[range.maximum_excluded ? "exclusiveMaximum" : "maximum"] = limit(range.maximum);
  }
  return schema;
}

// Text that is not of the pattern `excluded`. Without quotes, it may look like a number.
Json text_schema(const Range& range, const char* excluded) {
  const TextForm* form = range.form;
  Json schema = {{"type", {"string"}}};
  for (const auto& [type, text] :
       {std::pair("number", "1.5"), {"integer", "1"}, {"boolean", "true"}}) {
    if (!form || form->matches(text)) schema["type"].push_back(type);
  }
  schema["not"] = {{"type", "string"}, {"pattern", excluded}};
  if (form) {
    schema["pattern"] = fmt::format("^({}){}$", form->pattern, form->may_be_empty ? "?" : "");
  }
  return schema;
}

Json or_null(Json schema) {
  if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
  } else {
    schema["type"].push_back("null");
  }
  return schema;
}

// The values that a field of type T may hold, without expressions.
template <typename T>
Json value_schema(const Range& range) {
  constexpr const char* kExpression = R"(\$\{)";
  if constexpr (is_optional<T>) {
    return or_null(value_schema<typename T::value_type>(range));
  } else if constexpr (std::same_as<T, bool>) {
    return {{"enum", {true, false}}};
  } else if constexpr (std::integral<T>) {
    return number_schema("integer", range);
  } else if constexpr (std::floating_point<T>) {
    return number_schema("number", range);
  } else if constexpr (NamedEnum<T>) {
    return {{"enum", enum_names(T{})}};
  } else if constexpr (std::same_as<T, std::string>) {
    return text_schema(range, kExpression);
  } else if constexpr (std::same_as<T, TextList>) {
    Json schema = or_null(text_schema(range, R"(^$|[ \t\r\n,]|\$\{)"));  // a single word
    schema["type"].push_back("array");
    schema["items"] = text_schema(range, "^$");
    return schema;
  } else {
    return or_null(text_schema(range, kExpression));  // a path
  }
}

// An enumeration stands where editors look for words to complete. Other values have `if`, which
// gives better messages.
Json value_or_expression(Json value) {
  if (value.contains("enum")) return {{"anyOf", {std::move(value), reference("expression")}}};
  return {{"if", reference("expression")}, {"else", std::move(value)}};
}

Json expression_schema() {
  std::string keys;
  for (const RunSpecKey& key : run_spec_keys()) keys += (keys.empty() ? "" : "|") + key.name;
  const std::string number = R"(-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)";
  const std::string value = R"(\$\{ *()" + keys + R"() *\})";
  return {
      {"allOf",
       {{{"type", "string"}},
        {{"pattern", fmt::format("^ *({0} *[*/] *)*{1}( *[*/] *({0}|{1}))* *$", number, value)}}}}};
}

// --- the keys of a run ---

// The key that a section's short form sets. Empty if the section has none.
std::string key_of_short_form(const std::string& section) {
  if (section == "model.config") return "model.config.preset";
  const auto key = std::ranges::find(run_spec_keys(), section, &RunSpecKey::short_name);
  return key == run_spec_keys().end() ? "" : key->name;
}

// Returns the keys and sections below `prefix`. `schemas` has a run's, by their dotted names.
std::vector<std::string> names_below(const std::string& prefix, const Json& schemas) {
  std::vector<std::string> names;
  for (const auto& [name, schema] : schemas.items()) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

Json properties_below(const std::string& prefix, const Json& schemas) {
  Json properties;
  for (const std::string& name : names_below(prefix, schemas)) {
    properties[name] = reference(prefix + name);
  }
  return properties;
}

template <Fields Part>
void add_keys(Json& schemas, const Part& part, const std::string& prefix) {
  Part::visit_fields(part, [&]<typename T>(const char* name, const T& member,
                                           const char* documentation, const auto&... about) {
    const std::string key = prefix + name;
    Json& schema = schemas[key];
    schema["description"] = documentation;
    if constexpr (Fields<T>) {
      if (key == "model.config") {
        schemas[key + ".preset"] = {{"description", "A published architecture"},
                                    {"enum", preset_names()}};
      }
      add_keys(schemas, member, key + '.');
      const std::string first = key_of_short_form(key);
      const Json map = {{"type", "object"}};
      Json& section = schemas[key];
      section.update(first.empty() ? map : Json{{"anyOf", {map, reference(first)}}});
      section["additionalProperties"] = false;
      section["properties"] = properties_below(key + '.', schemas);
    } else {
      const std::string text = yaml_text(member);
      schema["description"] =
          fmt::format("{}\n{}; default: {}", documentation, find_run_spec_key(key)->allowed, text);
      schema["default"] = Json::parse(text == "null" ? text : json_text(member));
      if constexpr (std::same_as<T, AutoOrPath>) schema["examples"] = {"auto", "never"};
      schema.update(
          value_or_expression(value_schema<T>(part_of<Range>(about...).value_or(Range()))));
    }
  });
}

// Adds a run's keys to the parts of sweeps.
void add_to_sweeps(Json& parts, const Json& schemas) {
  for (const auto& [name, schema] : schemas.items()) {
    const bool is_section = find_run_spec_section(name) != nullptr;
    const std::string key = is_section ? key_of_short_form(name) : name;
    Json& excluded = parts["exclusion"]["properties"][name];
    if (is_section) {
      excluded = {{"type", "object"},
                  {"propertyNames", {{"enum", names_below(name + '.', schemas)}}}};
    }
    if (is_integer_key(name)) parts["doubled"]["properties"][name] = reference("range");
    if (key.empty()) continue;
    const Json list = {{"type", "array"}, {"minItems", 1}, {"items", reference(key)}};
    const Json one = reference(key);
    parts["combination"]["properties"][name] = one;
    parts["lists"]["properties"][name] = list;
    excluded = {{"if", {{"type", "array"}}},
                {"then", list},
                {"else", is_section ? Json{{"anyOf", {excluded, one}}} : one}};
  }
}

}  // namespace

std::string experiment_schema() {
  Json schema = Json::parse(kSchemaFrame);
  describe(schema);
  Json keys;
  add_keys(keys, RunSpec(), "");
  Json& parts = schema["$defs"];
  const Json properties = properties_below("", keys);
  parts["run"]["properties"] = properties;
  parts["point"]["properties"].update(properties);
  add_to_sweeps(parts, keys);
  parts["expression"] = expression_schema();
  parts.update(keys);
  return schema.dump(1) + '\n';
}

}  // namespace fsdp
