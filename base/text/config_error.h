#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
  // Further mistakes of the same call.
  const std::vector<ConfigError>& more() const { return more_; }

 private:
  friend class Mistakes;
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
  std::vector<ConfigError> more_{};
};

// Collects mistakes, so that one call tells all of them.
class Mistakes {
 public:
  // Calls `read`, and keeps the ConfigError that it throws.
  template <typename Read>
  void collect(const Read& read) {
    try {
      read();
    } catch (const ConfigError& error) {
      std::vector<ConfigError> more = error.more();
      more.insert(more.begin(), error);
      for (ConfigError& one : more) add(std::move(one));
    }
  }
  // Throws the first mistake, with the others.
  void throw_if_any() const {
    if (found_.empty()) return;
    ConfigError first = found_.front();
    first.more_.assign(found_.begin() + 1, found_.end());
    throw first;
  }

 private:
  void add(ConfigError error) {
    error.more_.clear();
    // Several runs may have one mistake.
    const auto is_same = [&](const ConfigError& other) {
      return other.place() == error.place() && other.key() == error.key();
    };
    if (std::ranges::none_of(found_, is_same)) found_.push_back(std::move(error));
  }

  std::vector<ConfigError> found_;
};

}  // namespace fsdp
