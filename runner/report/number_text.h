#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runner/report/statistics.h"

// Figures as people read them. What was not measured is "-".
namespace fsdp {

// "12.30" for two decimals; from 1e15 on three digits and an exponent, "3.79e+35"; "inf", "nan".
std::string decimals(double value, int count);

// Three significant digits, but never fewer than the whole part: 0.0123, 1.23, 12.3, 123, 12345.
std::string three_digits(std::optional<double> value);

// Rounded to three significant digits, those of the whole part too: 4880 of 4877. Figures that
// vary from run to run.
std::string short_number(double value);

// "91", "0.430": percent without decimals, unless nothing would be left of a figure above 0.
std::string whole_percent(double percent);

// "2.5000"; of a loss that is absent "not finite" if it was measured, else "-".
std::string loss_text(std::optional<double> loss, bool was_measured);

// A bound above 0 with one digit, rounded up: 2e-5 of 1.01e-5.
std::string rounded_up(double bound);

// "6.62M", "6.74B", as models are called.
std::string short_count(double value);

inline constexpr double kBytesPerGibibyte = 0x1p30;
// Bytes as GiB: "1.25", or "1.25-1.50" when least and most read differently.
std::string gibibytes(std::optional<double> least, std::optional<double> most);
std::string gibibytes(std::optional<double> bytes);

// The same with its unit: "1.25 GiB". Figures of runs have it in every place, so that they compare.
std::string gibibytes_text(int64_t bytes);

// "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min", "-12.3 s".
std::string duration(std::optional<double> time_ms);

// "x1.25"
std::string ratio(std::optional<double> value);
// "x1.25", "x1.25 [1.20, 1.31]" with its interval, "~ x1.02" where that holds 1.
std::string ratio(const std::optional<Ratio>& value);

// Reads a number for the column called `name`, in the unit at the end of that name unless it has
// one of its own: "40 GiB" for bytes, "3.5 min" for milliseconds. Absent when it is none.
std::optional<double> figure_from_text(std::string_view text, std::string_view name);
// The units that it takes for such a column: ", or one with ms, s, min, h"; nothing for most.
std::string allowed_units(std::string_view name);

}  // namespace fsdp
