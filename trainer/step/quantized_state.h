#pragma once

#include <ATen/core/Tensor.h>

namespace fsdp {

// A moment of Adam in 8 bits, by blocks of kStateBlock elements (Dettmers et al. 2022). An element
// is the value of its code (block_codes.cuh) times its block's largest absolute value.
struct QuantizedState {
  at::Tensor codes;   // uint8 [elements]; elements is a multiple of kStateBlock
  at::Tensor absmax;  // fp32 [elements / kStateBlock]
  bool is_signed;     // true for the first moment, false for the second

  // Returns zeros on the device of `options`. Their codes stand for 0, so they stay 0 if a
  // checkpoint loads another absmax. This happens if a parameter ends within a block.
  static QuantizedState zeros(int64_t elements, const at::TensorOptions& options, bool is_signed);

  // Returns elements [begin, begin + size), which are whole blocks.
  QuantizedState part(int64_t begin, int64_t size) const;

  // Returns the elements in fp32, on the CPU or on meta.
  at::Tensor dequantized() const;
  // Sets all elements, on the CPU or on meta. A block with a NaN or an infinity dequantizes to NaN
  // and infinities only.
  void quantize(const at::Tensor& elements) const;
};

}  // namespace fsdp
