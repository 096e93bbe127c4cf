#include "trainer/model/rotary.h"

namespace fsdp {

RotaryEmbedding::Table RotaryEmbedding::table(int64_t sequence_length,
                                              const at::TensorOptions& options) {
  const bool cached = table_.cosine.defined() && table_.cosine.size(0) >= sequence_length &&
                      table_.cosine.device() == options.device() &&
                      table_.cosine.dtype() == options.dtype();
  if (!cached) {
    const at::ScalarType compute = options.dtype() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor exponents =
        at::arange(0, head_width_, 2, options.device(at::kCPU).dtype(compute)).div_(head_width_);
    const at::Tensor frequencies = at::pow(theta_, exponents).reciprocal_().to(options.device());
    const at::Tensor positions = at::arange(sequence_length, options.dtype(compute));
    const at::Tensor angles = at::outer(positions, frequencies).unsqueeze_(1);
    const auto stored = [&](const at::Tensor& table) {
      if (buffer_type_ == at::kFloat) return table.to(options.dtype());
      return table.to(buffer_type_).to(options.dtype());
    };
    table_ = {stored(angles.cos()), stored(angles.sin())};
  }
  return {table_.cosine.narrow(0, 0, sequence_length), table_.sine.narrow(0, 0, sequence_length)};
}

void RotaryEmbedding::rotate(const at::Tensor& x_BTHW, const Table& table, bool inverse) {
  const int64_t half = x_BTHW.size(-1) / 2;
  at::Tensor first = x_BTHW.narrow(-1, 0, half);
  at::Tensor second = x_BTHW.narrow(-1, half, half);
  const double sign = inverse ? -1 : 1;
  at::Tensor rotated_first = first * table.cosine;
  rotated_first.addcmul_(second, table.sine, -sign);
  second.mul_(table.cosine).addcmul_(first, table.sine, sign);
  first.copy_(rotated_first);
}

}  // namespace fsdp
