#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Formats figures for people. "-": not measured.
namespace fsdp {

// "12.30" for two decimals; from 1e15 on three digits and an exponent: "3.79e+35"; "inf", "nan".
std::string decimals(double value, int count);

// Three significant digits, but never fewer than the whole part: 0.0123, 1.23, 12.3, 123, 12345.
std::string three_digits(std::optional<double> value);

constexpr double hours_of(double time_ms) { return time_ms / 3'600'000; }

// Rounds to three significant digits: 4880 for 4877. For figures that vary from run to run.
std::string short_number(double value);

// "91", "0.430": percent without decimals, except positive figures that would become 0.
std::string whole_percent(double percent);

// "2.5000"; if the loss is absent, "not finite" if it was measured, else "-".
std::string loss_text(std::optional<double> loss, bool was_measured);

// Rounds a positive bound up to one digit: 2e-5 for 1.01e-5.
std::string rounded_up(double bound);

// "6.62M", "6.74B", as in names of models.
std::string short_count(double value);

inline constexpr double kBytesPerGibibyte = 0x1p30;
// Formats bytes as GiB: "1.25", or "1.25-1.50" if least and most read differently.
std::string gibibytes(std::optional<double> least, std::optional<double> most);
std::string gibibytes(std::optional<double> bytes);

// Adds the unit: "1.25 GiB". All figures of runs use this unit, so that they are easy to compare.
std::string gibibytes_text(int64_t bytes);

// "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min", "-12.3 s".
std::string duration(std::optional<double> time_ms);

// "x1.25"
std::string ratio(std::optional<double> value);

// Reads a number for the column called `name`: "40 GiB" for bytes, "3.5 min" for milliseconds.
// A number without a unit has the unit in `name`. Returns nullopt for other texts and for units
// that the column cannot have.
std::optional<double> figure_from_text(std::string_view text, std::string_view name);
// Returns the units that figure_from_text() accepts: ", or one with ms, s, min, h". Empty: none.
std::string allowed_units(std::string_view name);

}  // namespace fsdp
