#include "runner/report/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fsdp {
namespace {

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

std::string two_parts(int64_t large, const char* large_unit, int64_t small,
                      const char* small_unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%lld %s %02lld %s", static_cast<long long>(large),
                large_unit, static_cast<long long>(small), small_unit);
  return buffer;
}

}  // namespace

std::string three_digits(double value) {
  constexpr int kMostDecimals = 6;
  char scientific[64];  // rounds before the exponent is read: 99.96 has three whole digits
  std::snprintf(scientific, sizeof(scientific), "%.2e", value);
  const int exponent = std::atoi(std::strchr(scientific, 'e') + 1);
  return fixed(value, std::clamp(2 - exponent, 0, kMostDecimals));
}

std::string three_digits(std::optional<double> value) { return value ? three_digits(*value) : "-"; }

std::string gibibytes(std::optional<int64_t> bytes) {
  constexpr double kBytesPerGibibyte = 1 << 30;
  return bytes ? three_digits(static_cast<double>(*bytes) / kBytesPerGibibyte) : "-";
}

std::string gibibytes(std::optional<int64_t> least, std::optional<int64_t> most) {
  const std::string least_text = gibibytes(least);
  const std::string most_text = gibibytes(most);
  return least_text == most_text ? most_text : least_text + "-" + most_text;
}

std::string duration(std::optional<double> time_ms) {
  if (!time_ms) return "-";
  if (*time_ms < 1'000) return fixed(*time_ms, 0) + " ms";
  if (*time_ms < 60'000) return fixed(*time_ms / 1'000, 1) + " s";
  const int64_t seconds = std::llround(*time_ms / 1'000);
  if (seconds < 3'600) return two_parts(seconds / 60, "min", seconds % 60, "s");
  const int64_t minutes = std::llround(*time_ms / 60'000);
  return two_parts(minutes / 60, "h", minutes % 60, "min");
}

std::string ratio(std::optional<double> value) {
  return value ? std::string("x").append(fixed(*value, 2)) : "-";
}

}  // namespace fsdp
