#include "runner/commands/local_time.h"

#include <fmt/chrono.h>

#include <charconv>
#include <ctime>
#include <map>
#include <optional>
#include <string_view>

#include "base/text/config_error.h"

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
  static const std::map<std::string_view, double> kUnits = {
      {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}, {"w", 6.048e8}};
  constexpr double kLongest = 1e15;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const auto unit = kUnits.find({end, text.data() + text.size()});
  if (unit == kUnits.end()) return std::nullopt;
  const double length = number * unit->second;
  return length >= 0 && length < kLongest ? std::optional(static_cast<int64_t>(length))
                                          : std::nullopt;
}

}  // namespace

std::string local_time(int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds) + " s after 1970";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option) {
  if (const auto ago = duration_ms(text)) return now_unix_ms - *ago;
  if (const auto moment = local_time_unix_ms(text)) return *moment;
  throw ConfigError(option, "",
                    "'" + text +
                        "' is no time; allowed: 2026-11-21, 2026-11-21T14:30, or how long ago as "
                        "90s, 30m, 2h, 3d, 1w");
}

}  // namespace fsdp
