#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/kernels/nf4_layout.h"

// Quantizes to NF4 on the CPU, and back on any device. The results have the same bits as with
// bitsandbytes' CPU backend.
namespace fsdp {

// Quantizes one tensor, piece by piece.
class Nf4Quantizer {
 public:
  explicit Nf4Quantizer(int64_t numel)
      : layout_{numel}, bytes_(layout_.bytes()), scales_(layout_.blocks()) {}

  // Quantizes the next piece. Every piece except the last consists of whole blocks.
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

// Sets `out`, contiguous and of a float type, to the values of `bytes` [layout's bytes]. On a GPU,
// issues the kernel on the current stream, or throws c10::Error if the build had no nvcc.
void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out);

}  // namespace fsdp
