#pragma once

#include <cstdint>

// NF4 (Dettmers et al. 2023, QLoRA): 4 bits for each value, in blocks of 64. A block's scale is its
// largest absolute value. The scales, less their mean, are stored in 8 bits, in blocks of 256
// (double quantization).
namespace fsdp {

inline constexpr int64_t kNf4Block = 64;
inline constexpr int64_t kNf4ScalesBlock = 256;

// The places of a tensor's parts in its bytes, in this order:
// 1. The values. Each byte has two, the first in its upper half.
// 2. The scale of each block of scales, in fp32.
// 3. The mean of the scales, in fp32.
// 4. An index of the dynamic map for each scale, in 8 bits.
// 5. Zeros up to a multiple of 64 bytes, so that tensors can follow each other.
struct Nf4Layout {
  int64_t numel;

  constexpr int64_t values_bytes() const { return (numel + 1) / 2; }
  constexpr int64_t blocks() const { return (numel + kNf4Block - 1) / kNf4Block; }
  constexpr int64_t blocks_of_scales() const {
    return (blocks() + kNf4ScalesBlock - 1) / kNf4ScalesBlock;
  }
  constexpr int64_t scales_of_scales_at() const { return (values_bytes() + 3) / 4 * 4; }
  constexpr int64_t mean_at() const { return scales_of_scales_at() + 4 * blocks_of_scales(); }
  constexpr int64_t scales_at() const { return mean_at() + 4; }
  constexpr int64_t bytes() const { return (scales_at() + blocks() + 63) / 64 * 64; }
};

}  // namespace fsdp
