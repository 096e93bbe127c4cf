#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "contract/families/model_config.h"

namespace fsdp {

// A config.json as transformers writes it (save_pretrained, versions 4 and 5). What is wrong with
// it is a ConfigError whose place is the file. A key that is null is absent, as for transformers.
class HuggingFaceConfig {
 public:
  // `object`: what `file` holds.
  HuggingFaceConfig(std::filesystem::path file, nlohmann::json object)
      : file_(std::move(file)), object_(std::move(object)) {}

  bool has(const std::string& key) const { return object_.contains(name_in_file(key)); }
  // null when absent.
  nlohmann::json find(const std::string& key) const {
    return object_.value(name_in_file(key), nlohmann::json());
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const;

  void require(std::initializer_list<const char*> keys) const;
  // The key is absent, or has the one value that is supported.
  void require_value(const char* key, const nlohmann::json& allowed) const;

  // The same file, read by ModelConfig's names for keys that the family names in its own way:
  // ModelConfig's name -> the file's.
  HuggingFaceConfig renamed(std::map<std::string, std::string> names) const;

  // Sets what the file has of ModelConfig's keys, within their ranges.
  void read_keys(ModelConfig& config) const;
  // The rotary embedding's base and scaling: version 5 nests both in rope_parameters, version 4 has
  // the scaling in rope_scaling.
  void read_rope(ModelConfig& config) const;

 private:
  template <typename T>
  void read_value(const std::string& key, const nlohmann::json& value, const Range& range,
                  T& member) const;
  void read_rope_scaling(const std::string& key, const nlohmann::json& rope,
                         RopeScaling& scaling) const;

  std::string name_in_file(const std::string& key) const;

  std::filesystem::path file_;
  nlohmann::json object_;
  std::map<std::string, std::string> names_;  // see renamed
};

}  // namespace fsdp
