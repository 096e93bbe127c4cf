#include "runner/commands/since.h"

#include <array>
#include <charconv>
#include <ctime>
#include <optional>
#include <string_view>

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

std::optional<int64_t> local_time_unix_ms(const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"}) {
    std::tm parts{};
    const char* end = strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    const int day = parts.tm_mday;
    parts.tm_isdst = -1;  // whatever holds on that day
    const std::time_t seconds = std::mktime(&parts);
    if (seconds == -1 || parts.tm_mday != day) return std::nullopt;  // 31 November
    return int64_t{seconds} * 1'000;
  }
  return std::nullopt;
}

std::optional<int64_t> duration_ms(std::string_view text) {
  struct Unit {
    std::string_view name;
    int64_t milliseconds;
  };
  constexpr std::array<Unit, 5> kUnits = {
      {{"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}, {"w", 604'800'000}}};
  constexpr double kLongest = 1e15;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const auto& [name, milliseconds] : kUnits) {
    const double length = number * static_cast<double>(milliseconds);
    if (name == unit && length >= 0 && length < kLongest) return static_cast<int64_t>(length);
  }
  return std::nullopt;
}

}  // namespace

int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option) {
  if (const auto ago = duration_ms(text)) return now_unix_ms - *ago;
  if (const auto moment = local_time_unix_ms(text)) return *moment;
  throw ConfigError(option, "",
                    "'" + text +
                        "' is no time; allowed: 2026-11-21, 2026-11-21T14:30, or how long ago as "
                        "90s, 30m, 2h, 3d, 1w");
}

}  // namespace fsdp
