#pragma once

#include "contract/families/model_config.h"
#include "trainer/kernels/kernels.h"

namespace fsdp {

// Rotary position embedding (Su et al. 2021) as in Hugging Face's LLaMA, with its scalings
// (transformers, modeling_rope_utils.py).
class RotaryEmbedding {
 public:
  // `theta` is the base of the frequencies; tables are first rounded to `buffer_type`.
  RotaryEmbedding(int64_t head_width, double theta, at::ScalarType buffer_type,
                  const RopeScaling& scaling = {})
      : head_width_(head_width), theta_(theta), buffer_type_(buffer_type), scaling_(scaling) {}

  // Returns the table for positions 0 to sequence_length - 1. With documents, it is for every
  // token's place in its document. It has the type and device of `options`. Angles are computed in
  // fp32 (fp64 for fp64). lengths_vary: see RotaryTable. The table is kept until the device, type,
  // length or documents change.
  const RotaryTable& table(Kernels& kernels, int64_t sequence_length, const DocumentsPtr& documents,
                           const at::TensorOptions& options, bool lengths_vary = false);

  // Returns the sequences as documents, because only documents can have a window. The result is
  // kept until the sequences or the device change.
  const DocumentsPtr& as_documents(int64_t tokens, int64_t sequence_length, at::Device device);

 private:
  at::Tensor frequencies(const at::TensorOptions& options) const;

  int64_t head_width_;
  double theta_;
  at::ScalarType buffer_type_;
  at::Tensor frequencies_;  // [width / 2], kept for every table because they come from the host
  RopeScaling scaling_;
  DocumentsPtr sequences_;
  at::TensorOptions options_;
  RotaryTable table_;
};

}  // namespace fsdp
