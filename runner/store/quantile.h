#pragma once

#include <span>
#include <vector>

namespace fsdp {

// The value below which `fraction` of the not empty `values` lie, interpolated linearly between
// neighbours. Reorders them, and takes time linear in their number.
double quantile(std::span<double> values, double fraction);

// The median; of an even number of values the mean of the middle two. `values` is not empty.
double median(std::vector<double> values);

}  // namespace fsdp
