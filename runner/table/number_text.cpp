// Writes figures for people, in three digits, and reads figures with units.
#include "runner/table/number_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ranges>
#include <span>

#include "base/text/numbers.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr double kLargestInDigits = 1e15;  // larger whole numbers are not exact
constexpr int kDecimals = 2;               // if there is an exponent

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kBytes[] = {
    {"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", kBytesPerGibibyte}};
constexpr Unit kTimes[] = {{"ms", 1}, {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}};
constexpr Unit kEnergies[] = {{"J", 1}, {"kJ", 1e3}};

// Returns the units that a figure of the column may have. The first is the column's own.
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

std::string three_digits(std::optional<double> value) {
  constexpr int kMostDecimals = 6;
  if (!value) return "-";
  if (!(std::abs(*value) < kLargestInDigits)) return decimals(*value, 0);
  if (*value == 0) return decimals(*value, 2);
  // The value is rounded before its exponent is read: 99.96 has three whole digits.
  const std::string rounded = with_exponent(*value, kDecimals);
  const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
  return decimals(*value, std::clamp(2 - exponent, 0, kMostDecimals));
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return decimals(value, 0);
  return three_digits(std::strtod(with_exponent(value, kDecimals).c_str(), nullptr));
}

std::string whole_percent(double percent) {
  return percent > 0 && percent < 1 ? three_digits(percent) : decimals(percent, 0);
}

std::string loss_text(std::optional<double> loss, bool was_measured) {
  constexpr int kLossDecimals = 4;
  if (loss) return decimals(*loss, kLossDecimals);
  return was_measured ? "not finite" : "-";
}

std::string rounded_up(double bound) {
  const auto with_one_digit = [](double value) { return fmt::format("{:.0e}", value); };
  std::string text = with_one_digit(bound);
  const double nearest = std::strtod(text.c_str(), nullptr);
  if (nearest < bound) {
    const double one = std::strtod(("1" + text.substr(text.find('e'))).c_str(), nullptr);
    text = with_one_digit(nearest + one);
  }
  const size_t zero = text.find("e-0");
  if (zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

std::string short_count(double value) {
  constexpr double kThousand = 1e3, kMillion = 1e6, kBillion = 1e9;
  if (value >= kBillion) return three_digits(value / kBillion) + "B";
  if (value >= kMillion) return three_digits(value / kMillion) + "M";
  if (value >= kThousand) return three_digits(value / kThousand) + "K";
  return decimals(value, 0);
}

std::string gibibytes(std::optional<double> bytes) {
  return bytes ? three_digits(*bytes / kBytesPerGibibyte) : "-";
}

std::string gibibytes(std::optional<double> least, std::optional<double> most) {
  return range_text(gibibytes(least), gibibytes(most), "-");
}

std::string gibibytes_text(int64_t bytes) { return gibibytes(static_cast<double>(bytes)) + " GiB"; }

std::string duration(std::optional<double> time_ms) {
  if (!time_ms) return "-";
  if (*time_ms < 0) return '-' + duration(-*time_ms);
  const bool is_readable = *time_ms < kLargestInDigits;
  if (*time_ms < 1'000 || !is_readable) return decimals(*time_ms, 0) + " ms";
  if (*time_ms < 60'000) return decimals(*time_ms / 1'000, 1) + " s";
  const int64_t seconds = std::llround(*time_ms / 1'000);
  if (seconds < 3'600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  const int64_t minutes = std::llround(*time_ms / 60'000);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string ratio(std::optional<double> value) {
  return value && !std::isnan(*value) ? 'x' + decimals(*value, 2) : "-";
}

std::optional<double> figure_from_text(std::string_view text, std::string_view name) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.empty()) return number;
  const std::span<const Unit> units = units_of(name);
  const auto unit = std::ranges::find(units, text, &Unit::name);
  return unit == units.end() ? std::nullopt : std::optional(number * unit->factor);
}

std::string allowed_units(std::string_view name) {
  const std::span<const Unit> units = units_of(name);
  if (units.empty()) return "";
  return fmt::format(", or one with {}",
                     fmt::join(units | std::views::transform(&Unit::name), ", "));
}

}  // namespace fsdp
