#pragma once

#include <cstdint>

#include "trainer/kernels/dynamic_map.h"
#include "trainer/kernels/host_device.h"
#include "trainer/kernels/nf4_layout.h"
#include "trainer/kernels/pack.h"

// Dequantizes NF4, kNf4Part values at a time. It also runs on the host.
namespace fsdp {

// Quantiles of a normal distribution, as in bitsandbytes. One of them is 0.
FSDP_DEVICE_CONSTANT constexpr float kNf4Codes[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};
FSDP_DEVICE_CONSTANT constexpr DynamicMap kSignedDynamicMap = dynamic_map(/*is_signed=*/true);

FSDP_HOST_DEVICE float nf4_scale(const uint8_t* bytes, const Nf4Layout& layout, int64_t block) {
  const auto* scales = reinterpret_cast<const float*>(bytes + layout.scales_of_scales_at());
  const float mean = *reinterpret_cast<const float*>(bytes + layout.mean_at());
  const float code = kSignedDynamicMap.values[bytes[layout.scales_at() + block]];
  return rounded_product(code, scales[block / kNf4ScalesBlock]) + mean;
}

// Values of one block, stored in 4 bytes. A thread writes them with one store if they have 16 bits.
// The stores of a warp are then contiguous.
inline constexpr int kNf4Part = 8;

// Dequantizes part `index` of kNf4Part values to `out`, which is aligned to kCount items.
template <typename T, int kCount>
FSDP_HOST_DEVICE void dequantize_nf4_part(const uint8_t* bytes, const Nf4Layout& layout,
                                          const float* codes, T* out, int64_t index) {
  using Bytes = Pack<uint8_t, kNf4Part / 2>;
  using Values = Pack<T, kCount>;
  const int64_t begin = index * kNf4Part;
  const float scale = nf4_scale(bytes, layout, begin / kNf4Block);
  if (begin + kNf4Part > layout.numel) {
    for (int64_t i = begin; i < layout.numel; ++i) {
      const uint8_t byte = bytes[i / 2];
      out[i] = static_cast<T>(codes[i % 2 == 0 ? byte >> 4 : byte & 15] * scale);
    }
    return;
  }
  const Bytes packed = *reinterpret_cast<const Bytes*>(bytes + begin / 2);
  for (int first = 0; first < kNf4Part; first += kCount) {
    Values values;
    for (int i = 0; i < kCount; ++i) {
      const uint8_t byte = packed.items[(first + i) / 2];
      values.items[i] = static_cast<T>(codes[(first + i) % 2 == 0 ? byte >> 4 : byte & 15] * scale);
    }
    *reinterpret_cast<Values*>(out + begin + first) = values;
  }
}

}  // namespace fsdp
