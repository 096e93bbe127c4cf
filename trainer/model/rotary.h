#pragma once

#include "contract/families/model_config.h"
#include "trainer/kernels/kernels.h"

namespace fsdp {

// Rotary position embedding (Su et al. 2021) as in Hugging Face's LLaMA, with its
// scalings (transformers, modeling_rope_utils.py).
class RotaryEmbedding {
 public:
  // `theta` is the base of the frequencies; `buffer_type` what a table is rounded to first.
  RotaryEmbedding(int64_t head_width, double theta, at::ScalarType buffer_type,
                  const RopeScaling& scaling = {})
      : head_width_(head_width), theta_(theta), buffer_type_(buffer_type), scaling_(scaling) {}

  // For positions 0 to sequence_length - 1, or where documents are given for every token's place in
  // its document; in the type and on the device of `options`. Angles are computed in fp32 (fp64 for
  // fp64). lengths_vary: see RotaryTable. Kept until another device, type or length or other
  // documents are asked for.
  const RotaryTable& table(Kernels& kernels, int64_t sequence_length, const DocumentsPtr& documents,
                           const at::TensorOptions& options, bool lengths_vary = false);

  // Sequences as documents, for attention that documents alone have; kept in the same way.
  const DocumentsPtr& as_documents(int64_t tokens, int64_t sequence_length, at::Device device);

 private:
  at::Tensor frequencies(const at::TensorOptions& options) const;

  int64_t head_width_;
  double theta_;
  at::ScalarType buffer_type_;
  at::Tensor frequencies_;  // [width / 2], kept for every table: it comes from the host
  RopeScaling scaling_;
  DocumentsPtr sequences_;
  at::TensorOptions options_;
  RotaryTable table_;
};

}  // namespace fsdp
