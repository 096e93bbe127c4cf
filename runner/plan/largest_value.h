#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace fsdp {

// Whether a value fits; nothing where the run may not have it.
using FitsAt = std::function<std::optional<bool>(int64_t value)>;

// The largest value from 1 to `most` that fits, where all smaller ones that are allowed do: doubles
// what fits, then bisects. Nothing when none does.
std::optional<int64_t> largest_value(int64_t most, const FitsAt& fits_at);

}  // namespace fsdp
