#pragma once

#include <stdexcept>
#include <string>

namespace fsdp {

// A mistake in the user's input. `what()` reads as one message:
//
//   experiments/lab.yaml:12:5: 'strategy.kind': 'fdsp' is not one of its values; allowed: single,
//   ddp, fsdp; did you mean 'fsdp'?
//
// `place` is file:line:column, a file, or an option. It is empty if only the key is known.
class ConfigError : public std::runtime_error {
 public:
  ConfigError(std::string place, std::string key, std::string problem)
      : std::runtime_error(render(place, key, problem)),
        place_(std::move(place)),
        key_(std::move(key)),
        problem_(std::move(problem)) {}

  const std::string& place() const { return place_; }
  const std::string& key() const { return key_; }
  const std::string& problem() const { return problem_; }

 private:
  static std::string render(const std::string& place, const std::string& key,
                            const std::string& problem) {
    std::string text;
    if (!place.empty()) text += place + ": ";
    if (!key.empty()) text += "'" + key + "': ";
    return text + problem;
  }

  std::string place_;
  std::string key_;
  std::string problem_;
};

}  // namespace fsdp
