#include "runner/report/figures.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

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

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 4> kBytes = {
    {{"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}}};
constexpr std::array<Unit, 4> kTimes = {{{"ms", 1}, {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}}};

// Those that a figure of the column may be given in; the first is the column's own.
std::span<const Unit> units_of(std::string_view name) {
  if (name.find("_bytes") != std::string_view::npos) return kBytes;
  if (name.find("_time_ms") != std::string_view::npos) return kTimes;
  return {};
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

std::string ratio(const std::optional<Ratio>& value) {
  if (!value) return "-";
  const std::string text = ratio(value->value);
  if (value->is_no_difference()) return "~ " + text;
  if (!value->interval) return text;
  return text + " [" + fixed(value->interval->low, 2) + ", " + fixed(value->interval->high, 2) +
         "]";
}

std::optional<double> figure_from_text(std::string_view text, std::string_view name) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.empty()) return number;
  for (const Unit& unit : units_of(name)) {
    if (unit.name == text) return number * unit.factor;
  }
  return std::nullopt;
}

std::string allowed_units(std::string_view name) {
  std::string text;
  for (const Unit& unit : units_of(name)) {
    text += text.empty() ? ", or one with " : ", ";
    text += unit.name;
  }
  return text;
}

}  // namespace fsdp
