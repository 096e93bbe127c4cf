#pragma once

#include <span>
#include <vector>

namespace fsdp {

// Returns the value below which `fraction` of the `values` lie, interpolated linearly between
// neighbours. `values` must not be empty and are reordered. Takes time linear in their number.
double quantile(std::span<double> values, double fraction);

// Returns the median, or the mean of the middle two values. `values` must not be empty.
double median(std::vector<double> values);

}  // namespace fsdp
