#pragma once

#include <cstdint>

// The optimizer's state in 8 bits, as bitsandbytes keeps it.
namespace fsdp {

// The number of consecutive elements that share one scale. The first block begins at the first
// element of the parameter.
inline constexpr int64_t kStateBlock = 256;

// The state of parameters with fewer elements stays in fp32.
inline constexpr int64_t kLeastQuantized = 4096;

}  // namespace fsdp
