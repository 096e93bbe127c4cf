#include "trainer/model/rotary.h"

#include <ATen/ATen.h>

#include "trainer/kernels/on_meta.h"

namespace fsdp {

// Computed on the CPU always, so that every device has the same ones.
at::Tensor RotaryEmbedding::frequencies(const at::TensorOptions& options) const {
  const at::Device host = options.device().is_meta() ? options.device() : at::Device(at::kCPU);
  const at::Tensor exponents =
      counted(0, head_width_ / 2, options.device(host)).mul_(2).div_(head_width_);
  return at::pow(theta_, exponents).reciprocal_().to(options.device());
}

const RotaryTable& RotaryEmbedding::table(Kernels& kernels, int64_t sequence_length,
                                          const DocumentsPtr& documents,
                                          const at::TensorOptions& options) {
  if (documents) sequence_length = documents->token_count();
  const bool is_kept = table_.sequence_length == sequence_length && table_.documents == documents &&
                       options_.device() == options.device() && options_.dtype() == options.dtype();
  if (is_kept) return table_;
  table_ = {};
  const at::ScalarType wide = options.dtype() == at::kDouble ? at::kDouble : at::kFloat;
  const bool has_frequencies = frequencies_.defined() && frequencies_.scalar_type() == wide &&
                               frequencies_.device() == options.device();
  if (!has_frequencies) frequencies_ = frequencies(options.dtype(wide));
  const at::Tensor positions = documents ? documents->position_ids_N.to(wide)
                                         : counted(0, sequence_length, options.dtype(wide));
  options_ = options;
  table_ = kernels.rotary_table(at::outer(positions, frequencies_), documents, buffer_type_,
                                c10::typeMetaToScalarType(options.dtype()));
  return table_;
}

}  // namespace fsdp
