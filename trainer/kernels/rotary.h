#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/kernels/float_type.h"

namespace fsdp {

// Queries, keys or values [sequences, tokens, heads, width], with strides in elements. The elements
// of a head are contiguous.
struct HeadRows {
  const void* data = nullptr;
  int64_t sequence_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// A rotation of queries and keys by the angles of their tokens (Su et al. 2021, RoFormer). Elements
// i and i + width / 2 of a head are a pair, which is rotated. Values are copied. Everything between
// reading and writing is fp32.
struct Rotation {
  HeadRows query{};
  HeadRows key{};
  HeadRows value{};        // null: values are left as they are
  void* packed = nullptr;  // the result [rows, heads, width]; may be the source of queries and keys
  const void* cosine = nullptr;  // [tokens, width / 2]
  const void* sine = nullptr;
  int64_t rows = 0;    // tokens of all sequences
  int64_t tokens = 0;  // of a sequence
  int64_t query_heads = 0;
  int64_t key_value_heads = 0;
  int64_t width = 0;
  bool is_back = false;  // by the negative angles
};

// Computes this on a GPU in one kernel. All tensors are on the current device, and stay alive until
// the kernel on `stream` has ended. Returns the result of starting the kernel.
cudaError_t start_rotation(const Rotation& rotation, FloatType type, cudaStream_t stream);

}  // namespace fsdp
