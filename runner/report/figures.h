#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Figures as people read them. What was not measured is "-".
namespace fsdp {

// Three significant digits, but never fewer than the whole part: 0.0123, 1.23, 12.3, 123, 12345.
std::string three_digits(double value);
std::string three_digits(std::optional<double> value);

// Bytes as GiB: "1.25", or "1.25-1.50" when least and most read differently.
std::string gibibytes(std::optional<int64_t> least, std::optional<int64_t> most);
std::string gibibytes(std::optional<int64_t> bytes);

// "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min".
std::string duration(std::optional<double> time_ms);

// "x1.25"
std::string ratio(std::optional<double> value);

}  // namespace fsdp
