#pragma once

#include <ATen/core/Tensor.h>

namespace fsdp {

// A moment of Adam in 8 bits, by blocks of kStateBlock elements (Dettmers et al. 2022). An element
// is the value of its code (block_codes.cuh) times its block's largest absolute value.
struct QuantizedState {
  at::Tensor codes;   // uint8 [elements], a multiple of kStateBlock
  at::Tensor absmax;  // fp32 [elements / kStateBlock]
  bool is_signed;     // the first moment

  // Returns zeros beside tensors of `options`. They stay zeros if a checkpoint brings another
  // absmax, as it does where a parameter ends within a block.
  static QuantizedState zeros(int64_t elements, const at::TensorOptions& options, bool is_signed);

  // Returns elements [begin, begin + size) of whole blocks.
  QuantizedState part(int64_t begin, int64_t size) const;

  // Returns the elements in fp32, on the CPU or on meta.
  at::Tensor dequantized() const;
  // Sets all elements, on the CPU or on meta. A block with a NaN or an infinity dequantizes to NaN,
  // zeros and infinities.
  void quantize(const at::Tensor& elements) const;
};

}  // namespace fsdp
