#include "contract/families/hugging_face_config.h"

#include "contract/text/config_error.h"
#include "contract/text/utf8.h"

namespace fsdp {

using nlohmann::json;

void HuggingFaceConfig::refuse(const std::string& key, const std::string& problem) const {
  throw ConfigError(file_.string(), name_in_file(key), shortened(problem, kMostOfMessage));
}

void HuggingFaceConfig::require(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (find(key).is_null()) refuse(key, "is missing");
  }
}

void HuggingFaceConfig::require_value(const char* key, const json& allowed) const {
  if (const json value = find(key); !value.is_null() && value != allowed) {
    refuse(key, value.dump() + " is not supported; allowed: " + allowed.dump());
  }
}

HuggingFaceConfig HuggingFaceConfig::renamed(std::map<std::string, std::string> names) const {
  HuggingFaceConfig same = *this;
  same.names_ = std::move(names);
  return same;
}

std::string HuggingFaceConfig::name_in_file(const std::string& key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? key : found->second;
}

template <typename T>
void HuggingFaceConfig::read_value(const std::string& key, const json& value, const Range& range,
                                   T& member) const {
  if constexpr (is_optional<T>) {
    read_value(key, value, range, member.emplace());
  } else if constexpr (NamedEnum<T>) {
    const auto known =
        value.is_string() ? enum_from_name<T>(value.get<std::string>()) : std::nullopt;
    if (!known) {
      refuse(key, value.dump() + " is not supported; allowed: " + json(enum_names(T{})).dump());
    }
    member = *known;
  } else {
    if constexpr (std::same_as<T, bool>) {
      if (!value.is_boolean()) refuse(key, value.dump() + " is not true or false");
    } else {
      const bool is_number =
          std::same_as<T, int64_t> ? value.is_number_integer() : value.is_number();
      if (!is_number || !range.contains(value.get<double>())) {
        refuse(key, value.dump() + " is not a " +
                        (std::same_as<T, int64_t> ? "whole number " : "number ") +
                        range.description());
      }
    }
    member = value.get<T>();
  }
}

void HuggingFaceConfig::read_keys(ModelConfig& config) const {
  ModelConfig::visit_fields(
      config, [&]<typename T>(const char* key, T& member, const char*, const Range& range) {
        // The architecture is in a list there, and see read_rope.
        if constexpr (!std::same_as<T, std::string> && !Fields<T>) {
          if (const json value = find(key); !value.is_null()) read_value(key, value, range, member);
        }
      });
}

void HuggingFaceConfig::read_rope_scaling(const std::string& key, const json& rope,
                                          RopeScaling& scaling) const {
  const json type = rope.value("rope_type", rope.value("type", json("default")));
  read_value(key + ".rope_type", type, any_value(), scaling.type);
  RopeScaling::visit_fields(
      scaling, [&]<typename T>(const char* name, T& member, const char*, const Range& range) {
        if constexpr (std::is_arithmetic_v<T>) {
          const bool is_used =
              scaling.type == RopeType::kLlama3 ||
              (scaling.type == RopeType::kLinear && name == std::string_view("factor"));
          if (!is_used) return;
          const json value = rope.value(name, json());
          if (value.is_null()) refuse(key + '.' + name, "is missing");
          read_value(key + '.' + name, value, range, member);
        }
      });
}

void HuggingFaceConfig::read_rope(ModelConfig& config) const {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json rope = find(key);
    if (rope.is_null()) continue;
    if (!rope.is_object()) refuse(key, rope.dump() + " is not an object");
    read_rope_scaling(key, rope, config.rope_scaling);
    if (const json theta = rope.value("rope_theta", json()); !theta.is_null()) {
      read_value(std::string(key) + ".rope_theta", theta, greater_than(0), config.rope_theta);
    }
  }
}

}  // namespace fsdp
