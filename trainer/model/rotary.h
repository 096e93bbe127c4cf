#pragma once

#include <ATen/ATen.h>

namespace fsdp {

// Rotary position embedding (Su et al. 2021) as in Hugging Face's LLaMA: element i of a head's
// first half is rotated with element i of its second half.
class RotaryEmbedding {
 public:
  // Angles of one sequence: [T, 1, head width / 2] each, to broadcast over heads.
  struct Table {
    at::Tensor cosine;
    at::Tensor sine;
  };

  // `theta` is the base of the frequencies; `buffer_type` what a table is rounded to first.
  RotaryEmbedding(int64_t head_width, double theta, at::ScalarType buffer_type = at::kFloat)
      : head_width_(head_width), theta_(theta), buffer_type_(buffer_type) {}

  // Positions 0 to sequence_length - 1, in the type and on the device of `options`. Computed in
  // fp32 (fp64 for fp64) once and kept until another device, type or a longer sequence is asked
  // for.
  Table table(int64_t sequence_length, const at::TensorOptions& options);

  // Rotates x in place; x: [B, T, heads, head width]. `inverse` rotates back, which is also the
  // gradient.
  static void rotate(const at::Tensor& x_BTHW, const Table& table, bool inverse = false);

 private:
  int64_t head_width_;
  double theta_;
  at::ScalarType buffer_type_;
  Table table_;
};

}  // namespace fsdp
