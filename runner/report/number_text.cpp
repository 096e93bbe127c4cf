#include "runner/report/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "contract/text/numbers.h"

namespace fsdp {
namespace {

constexpr double kLargestInDigits = 1e15;  // whole numbers above are no more exact
constexpr int kDecimals = 2;               // where there is an exponent

std::string two_parts(int64_t large, const char* large_unit, int64_t small,
                      const char* small_unit) {
  const std::string digits = std::to_string(small);
  return std::to_string(large) + ' ' + large_unit + (digits.size() < 2 ? " 0" : " ") + digits +
         ' ' + small_unit;
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 4> kBytes = {
    {{"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}}};
constexpr std::array<Unit, 4> kTimes = {{{"ms", 1}, {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}}};
constexpr std::array<Unit, 2> kEnergies = {{{"J", 1}, {"kJ", 1e3}}};

// Those that a figure of the column may be given in; the first is the column's own.
std::span<const Unit> units_of(std::string_view name) {
  if (name.find("_bytes") != std::string_view::npos) return kBytes;
  if (name.find("_time_ms") != std::string_view::npos) return kTimes;
  if (name.ends_with("_joules")) return kEnergies;
  return {};
}

}  // namespace

std::string decimals(double value, int count) {
  return std::abs(value) < kLargestInDigits ? with_decimals(value, count)
                                            : with_exponent(value, kDecimals);
}

std::string three_digits(double value) {
  constexpr int kMostDecimals = 6;
  if (!(std::abs(value) < kLargestInDigits)) return decimals(value, 0);
  if (value == 0) return decimals(value, 2);
  // Rounded before its exponent is read: 99.96 has three whole digits.
  const std::string rounded = with_exponent(value, kDecimals);
  const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
  return decimals(value, std::clamp(2 - exponent, 0, kMostDecimals));
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
  if (*time_ms < 0) return '-' + duration(-*time_ms);
  const bool is_readable = *time_ms < kLargestInDigits;
  if (*time_ms < 1'000 || !is_readable) return decimals(*time_ms, 0) + " ms";
  if (*time_ms < 60'000) return decimals(*time_ms / 1'000, 1) + " s";
  const int64_t seconds = std::llround(*time_ms / 1'000);
  if (seconds < 3'600) return two_parts(seconds / 60, "min", seconds % 60, "s");
  const int64_t minutes = std::llround(*time_ms / 60'000);
  return two_parts(minutes / 60, "h", minutes % 60, "min");
}

std::string ratio(std::optional<double> value) {
  return value && !std::isnan(*value) ? 'x' + decimals(*value, 2) : "-";
}

std::string ratio(const std::optional<Ratio>& value) {
  if (!value) return "-";
  const std::string text = ratio(value->value);
  if (value->is_no_difference()) return "~ " + text;
  if (!value->interval) return text;
  return text + " [" + decimals(value->interval->low, 2) + ", " +
         decimals(value->interval->high, 2) + "]";
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
