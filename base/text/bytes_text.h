#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "base/text/numbers.h"

namespace fsdp {

// "812 B", "12.5 MiB", "1.25 GiB": three digits, in the largest unit that the bytes fill.
inline std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return with_decimals(value, decimals) + ' ' + kUnits[unit];
}

}  // namespace fsdp
