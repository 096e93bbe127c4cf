#include "runner/slurm/options.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

bool begins_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         strncasecmp(text.data(), prefix.data(), prefix.size()) == 0;
}

}  // namespace

std::string_view checked_line(const std::string& key, std::string_view value) {
  if (std::ranges::any_of(value,
                          [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; })) {
    throw ConfigError("", key,
                      "has a line break or another control character, which a script cannot hold");
  }
  return value;
}

std::string gpu_option(const SlurmSpec& slurm, int64_t gpus_per_node) {
  return fmt::format("{}{}{}{}",
                     slurm.gpu_request == GpuRequest::kGres ? "--gres=gpu:" : "--gpus-per-node=",
                     slurm.gpu_type, slurm.gpu_type.empty() ? "" : ":", gpus_per_node);
}

std::vector<std::string> checked_options(const std::string& key,
                                         const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    const std::string_view name = std::string_view(option).substr(0, option.find('='));
    if (name.starts_with('-') && name.find_first_of(" \t") != std::string_view::npos) {
      std::string joined = option;
      joined[name.find_first_of(" \t")] = '=';
      throw ConfigError("", key,
                        fmt::format("'{}' is one word to the program; write '{}', or each word as "
                                    "an item",
                                    option, joined));
    }
  }
  return options;
}

void refuse_other_clusters(const std::string& key, const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    const std::string_view name = std::string_view(option).substr(0, option.find_first_of("= \t"));
    if (name != "--clusters" && name != "--cluster" && !name.starts_with("-M")) continue;
    throw ConfigError("", key,
                      fmt::format("'{}' sends jobs to a cluster that is not the one which is asked "
                                  "about them; leave it out and call fsdp-run on a login node of "
                                  "that cluster",
                                  option));
  }
}

std::string sbatch_quoted(std::string_view option) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%[]&|*()";
  std::string text;
  bool is_plain = true;
  for (size_t i = 0; i < option.size(); ++i) {
    const std::string_view rest = option.substr(i);
    const bool is_marker =
        begins_with_ignoring_case(rest, "hetjob") || begins_with_ignoring_case(rest, "packjob");
    if (is_marker || rest[0] == '"' || rest[0] == '\\') text += '\\';
    text += rest[0];
    is_plain = is_plain && kPlain.find(rest[0]) != std::string_view::npos;
  }
  return is_plain ? text : '"' + text + '"';
}

std::string file_name_pattern(const std::filesystem::path& path) {
  std::string pattern;
  for (const char c : path.string()) {
    if (c == '\\') {
      throw ConfigError("", "",
                        path.string() +
                            ": Slurm cannot write to a folder whose path has a "
                            "backslash; choose another with --results");
    }
    pattern.append(c == '%' ? 2 : 1, c);
  }
  return pattern;
}

std::optional<int64_t> seconds_of(std::string_view time) {
  std::vector<int64_t> numbers;
  for (const char c : time) {
    if (numbers.empty() || c < '0' || c > '9') numbers.push_back(0);
    if (c >= '0' && c <= '9') numbers.back() = numbers.back() * 10 + (c - '0');
  }
  if (numbers.empty()) return std::nullopt;
  // Without days the last number is seconds, but a single number is minutes.
  static constexpr std::array kUnits = {86400, 3600, 60, 1};
  const bool has_days = time.find('-') != std::string_view::npos;
  const size_t first_unit = has_days              ? 0
                            : numbers.size() == 1 ? 2
                                                  : 4 - std::min<size_t>(numbers.size(), 3);
  int64_t seconds = 0;
  for (size_t i = 0; i < numbers.size() && first_unit + i < kUnits.size(); ++i) {
    seconds += numbers[i] * kUnits[first_unit + i];
  }
  return seconds == 0 ? std::nullopt : std::optional(seconds);
}

}  // namespace fsdp
