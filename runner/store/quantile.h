#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace fsdp {

// Returns the value below which `fraction` of the `values` lie, interpolated linearly between
// neighbours. `values` must not be empty and are reordered. Takes time linear in their number.
inline double quantile(std::span<double> values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(position);
  const auto at = values.begin() + below;
  std::ranges::nth_element(values, at);
  const double part = position - static_cast<double>(below);
  if (part == 0 || at + 1 == values.end()) return *at;
  const double above = *std::min_element(at + 1, values.end());
  return *at == above ? *at : std::lerp(*at, above, part);  // both may be infinite
}

// Returns the median, or the mean of the middle two values. `values` must not be empty.
inline double median(std::vector<double> values) { return quantile(values, 0.5); }

}  // namespace fsdp
