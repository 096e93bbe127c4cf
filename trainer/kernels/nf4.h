#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/kernels/nf4_layout.h"

// Quantizes to NF4 on the CPU, and back on any device, with the bits of bitsandbytes' CPU backend.
namespace fsdp {

// Quantizes one tensor, which it is given piece by piece.
class Nf4Quantizer {
 public:
  explicit Nf4Quantizer(int64_t numel)
      : layout_{numel}, bytes_(layout_.bytes()), scales_(layout_.blocks()) {}

  // Takes the next values. All but the last piece have whole blocks.
  void add(std::span<const float> values);
  // Returns the bytes of the whole tensor, as Nf4Layout places them.
  std::vector<uint8_t> finish();

 private:
  void add_block(int64_t block, std::span<const float> values);

  Nf4Layout layout_;
  std::vector<uint8_t> bytes_;
  std::vector<float> scales_;
  int64_t blocks_done_ = 0;
};

// Sets `out`, contiguous and of a float type, to the values of `bytes` [layout's bytes]. On a GPU
// the kernel is issued on the current stream. Throws c10::Error if the build had no nvcc.
void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out);

}  // namespace fsdp
