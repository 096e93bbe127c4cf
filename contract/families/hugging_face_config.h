#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/families/model_config.h"

namespace fsdp {

// A config.json as transformers writes it (save_pretrained, versions 4 and 5). Each error is a
// ConfigError whose place is the file. A null key counts as absent, as in transformers.
class HuggingFaceConfig {
 public:
  // `object` is the content of `file`.
  HuggingFaceConfig(std::filesystem::path file, nlohmann::json object)
      : file_(std::move(file)), object_(std::move(object)) {}

  bool has(const std::string& key) const { return object_.contains(name_in_file(key)); }
  // Returns the key's value, null if it is absent. The key counts as read.
  nlohmann::json find(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const;

  void require(std::initializer_list<const char*> keys) const;
  // Throws unless the key is absent or has the one supported value.
  void require_value(const char* key, const nlohmann::json& allowed) const;

  // Returns the same file with another value for the key.
  HuggingFaceConfig with(const std::string& key, nlohmann::json value) const;
  // Returns the same file with ModelConfig's names for keys that the family names differently.
  // `names` maps ModelConfig's name to the file's.
  HuggingFaceConfig renamed(std::map<std::string, std::string> names) const;

  // Reads the keys that config.architecture takes and the file has, within their ranges.
  void read_keys(ModelConfig& config) const;
  // Reads the rotary embedding's base and scaling. Version 5 nests both in rope_parameters. Version
  // 4 has the scaling in rope_scaling.
  void read_rope(ModelConfig& config) const;

  // Returns the keys that nothing has read so far. Leaves out keys that cannot change training, and
  // values that ask for nothing: null, false, empty lists and objects.
  std::vector<std::string> unread_keys() const;

 private:
  template <typename T>
  void read_value(const std::string& key, const nlohmann::json& value, const Range& range,
                  T& member) const;
  void read_rope_scaling(const std::string& key, const nlohmann::json& rope,
                         RopeScaling& scaling) const;
  // The longest sequence before stretching. It is beside `rope` in the file, in `rope`, or else
  // max_position_embeddings.
  nlohmann::json original_positions(const nlohmann::json& rope) const;

  std::string name_in_file(const std::string& key) const;

  std::filesystem::path file_;
  nlohmann::json object_;
  std::map<std::string, std::string> names_;  // see renamed
  // The keys that were read, by their names in the file. Copies of this object share the set.
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();
};

}  // namespace fsdp
