#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "base/text/config_error.h"
#include "base/text/fields.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

namespace fsdp {

// Reads the contract's structs from JSON, through their visit_fields. Only optional fields may be
// missing, and a number must be in its field's range. Throws ConfigError with `place` and the key.
class JsonFields {
 public:
  explicit JsonFields(std::string place) : place_(std::move(place)) {}

  template <typename T>
  void read(const std::string& key, const nlohmann::json& value, T& member) const {
    if constexpr (is_optional<T>) {
      if (!value.is_null()) read(key, value, member.emplace());
    } else if constexpr (is_vector<T>) {
      require(value.is_array(), key, value, "a list");
      for (const nlohmann::json& item : value) read(key, item, member.emplace_back());
    } else if constexpr (NamedEnum<T>) {
      const auto named =
          value.is_string() ? enum_from_name<T>(value.get<std::string>()) : std::nullopt;
      require(named.has_value(), key, value, "a name that this version knows");
      member = *named;
    } else if constexpr (Fields<T>) {
      require(value.is_object(), key, value, "an object");
      T::visit_fields(member, [&](const char* name, auto& field, auto&&... about) {
        const auto found = value.find(name);
        if (found != value.end()) {
          read(name, *found, field);
          (require_within(about, name, *found, field), ...);
        } else if (!is_optional<std::remove_cvref_t<decltype(field)>>) {
          throw ConfigError(place_, name, "is missing");
        }
      });
    } else if constexpr (std::same_as<T, bool>) {
      require(value.is_boolean(), key, value, "true or false");
      member = value.get<bool>();
    } else if constexpr (std::same_as<T, int64_t>) {
      constexpr uint64_t kLargest = int64_t{1} << 60;
      require(value.is_number_unsigned() && value.get<uint64_t>() <= kLargest, key, value,
              "a whole number of at most 2^60");
      member = value.get<int64_t>();
    } else if constexpr (std::same_as<T, double>) {
      require(value.is_number(), key, value, "a number");
      member = value.get<double>();
    } else {
      require(value.is_string(), key, value, "text");
      member = value.get<std::string>();
    }
  }

 private:
  void require(bool holds, const std::string& key, const nlohmann::json& value,
               const std::string& allowed) const {
    if (!holds) {
      throw ConfigError(place_, key,
                        shortened(value.dump(), kMostOfMessage) + " is not " + allowed);
    }
  }

  // Checks the field's range, if `about` is one and the field is a number.
  template <typename About, typename T>
  void require_within(const About& about, const std::string& key, const nlohmann::json& value,
                      const T& number) const {
    if constexpr (std::same_as<About, Range> &&
                  (std::same_as<T, int64_t> || std::same_as<T, double>)) {
      require(about.contains(number), key, value, about.description());
    }
  }

  std::string place_;
};

}  // namespace fsdp
