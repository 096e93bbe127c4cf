#pragma once

#include <cstdint>

// The optimizer's state in 8 bits, as bitsandbytes keeps it.
namespace fsdp {

// The elements of a parameter that share one scale. They are consecutive, from its first one on.
inline constexpr int64_t kStateBlock = 256;

// The state of parameters with fewer elements stays in fp32.
inline constexpr int64_t kLeastQuantized = 4096;

}  // namespace fsdp
