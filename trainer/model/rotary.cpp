// Computes the angles of rotary embeddings. Keeps the table until a batch has another shape.
#include "trainer/model/rotary.h"

#include <ATen/ATen.h>

#include <numbers>
#include <stdexcept>

#include "trainer/kernels/on_meta.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp {

namespace {

// Scales as Llama 3.1 does. The number of turns over the original positions decides how much of a
// frequency is divided by scaling.factor. Below low_freq_factor turns, all of it is divided; above
// high_freq_factor turns, nothing.
at::Tensor llama3_scaled(const at::Tensor& frequencies, const RopeScaling& scaling) {
  const at::Tensor turns =
      frequencies * (scaling.original_max_position_embeddings / (2 * std::numbers::pi));
  const double range = scaling.high_freq_factor - scaling.low_freq_factor;
  const at::Tensor kept = ((turns - scaling.low_freq_factor) / range).clamp_(0, 1);
  return frequencies * kept + frequencies / scaling.factor * (1 - kept);
}

at::Tensor scaled(const at::Tensor& frequencies, const RopeScaling& scaling) {
  switch (scaling.type) {
    case RopeType::kDefault:
      return frequencies;
    case RopeType::kLinear:
      return frequencies / scaling.factor;
    case RopeType::kLlama3:
      return llama3_scaled(frequencies, scaling);
  }
  throw std::logic_error("rope_scaling.type");
}

}  // namespace

// Always computed on the CPU, so that every device has the same frequencies.
at::Tensor RotaryEmbedding::frequencies(const at::TensorOptions& options) const {
  at::Tensor frequencies = at::empty({head_width_ / 2}, options);
  const UncountedMemory on_the_host;
  const at::Tensor exponents =
      at::arange(head_width_ / 2, options.device(at::kCPU)).mul_(2).div_(head_width_);
  return frequencies.copy_(scaled(at::pow(theta_, exponents).reciprocal_(), scaling_));
}

const RotaryTable& RotaryEmbedding::table(Kernels& kernels, int64_t sequence_length,
                                          const DocumentsPtr& documents,
                                          const at::TensorOptions& options, bool lengths_vary) {
  if (documents) sequence_length = documents->token_count();
  const bool is_kept = table_.sequence_length == sequence_length && table_.documents == documents &&
                       table_.lengths_vary == lengths_vary &&
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
                                c10::typeMetaToScalarType(options.dtype()), lengths_vary);
  return table_;
}

const DocumentsPtr& RotaryEmbedding::as_documents(int64_t tokens, int64_t sequence_length,
                                                  at::Device device) {
  const int64_t count = tokens / sequence_length;
  const bool is_kept = sequences_ && sequences_->count() == count &&
                       sequences_->longest == sequence_length &&
                       sequences_->starts_on_device.device() == device;
  if (!is_kept) {
    const std::vector<int64_t> lengths(count, sequence_length);
    sequences_ = make_documents(lengths, sequence_length, device);
  }
  return sequences_;
}

}  // namespace fsdp
