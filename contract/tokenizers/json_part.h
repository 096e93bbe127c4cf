#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

// A part of a user's JSON document, and the key that leads to it. Each error is a ConfigError that
// names the file and the key.
class JsonPart {
 public:
  JsonPart(const std::filesystem::path& file, const nlohmann::json& value, std::string key = "")
      : file_(&file), value_(&value), key_(std::move(key)) {}

  const nlohmann::json& value() const { return *value_; }
  // True for null, also for an absent key.
  bool is_null() const { return value_->is_null(); }
  JsonPart at(std::string_view name) const;
  // The elements of an array.
  std::vector<JsonPart> elements() const;

  std::string text() const;
  // Returns `otherwise` for null.
  bool flag(bool otherwise) const;
  std::string type() const { return at("type").text(); }
  int32_t token_id() const;

  [[noreturn]] void refuse(const std::string& problem) const;
  // Throws "is <value>; allowed: <allowed>".
  [[noreturn]] void refuse_value(const std::string& allowed) const;

 private:
  const std::filesystem::path* file_;
  const nlohmann::json* value_;
  std::string key_;
};

}  // namespace fsdp
