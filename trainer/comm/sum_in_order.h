#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace fsdp {

// Computes out[i] = sources[0][i] + sources[1][i] + ..., each of `bytes`. Sums of bfloat16 and
// float16 are fp32. `out` may be one of the sources.
void sum_in_order(at::ScalarType dtype, std::span<const std::byte* const> sources, std::byte* out,
                  int64_t bytes);

}  // namespace fsdp
