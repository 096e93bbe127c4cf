#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {

// A value that follows from a run's other keys. It is a reference, "${strategy.ranks}", or a
// product or quotient of references and numbers: "${batch.size_per_rank} * 1e-4 / 2", from left to
// right.
class Expression {
 public:
  // True if `value` is meant to be an expression: a scalar, in quotes or not, that holds "${".
  static bool is_meant(const YAML::Node& value);

  // Throws ConfigError if `entry.value` is malformed or refers to an unknown key.
  explicit Expression(const YamlEntry& entry);

  // Returns the result as written in YAML, with the values of `spec`. Throws ConfigError (place:
  // the expression's) if a key has no value, a factor is not a number, or the result is not finite.
  std::string result(const RunSpec& spec) const;

  // The numbers of the keys that the expression refers to.
  std::vector<size_t> keys() const;

  const std::string& text() const { return text_; }
  const std::string& place() const { return place_; }

 private:
  struct Factor {
    std::optional<size_t> key;  // nullopt: a number
    long double number = 1;
    bool is_divisor = false;
  };

  [[noreturn]] void refuse(const std::string& problem) const;
  Factor read_factor(std::string_view& rest) const;
  long double number_of(const Factor& factor, const RunSpec& spec) const;
  std::string text_of(size_t key, const RunSpec& spec) const;

  std::string key_;  // the key that gets this value
  std::string text_;
  std::string place_;
  std::vector<Factor> factors_;
};

}  // namespace fsdp
