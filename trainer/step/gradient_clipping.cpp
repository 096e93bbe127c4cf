#include "trainer/step/gradient_clipping.h"

namespace fsdp {
namespace {

// 0-dimensional, fp32, of parts of the gradients. On the CPU libtorch would make a wide copy of a
// whole narrow gradient.
std::vector<at::Tensor> norms_of_parts(const std::vector<at::Tensor>& gradients) {
  constexpr int64_t kPart = 1 << 18;
  const at::Tensor& first = gradients.front();
  if (first.is_cuda() || !at::isReducedFloatingType(first.scalar_type())) {
    return at::_foreach_norm(gradients, 2, at::kFloat);
  }
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    for (const at::Tensor& part : gradient.split(kPart)) {
      norms.push_back(at::linalg_vector_norm(part.to(at::kFloat)));
    }
  }
  return norms;
}

}  // namespace

at::Tensor gradient_norm_of(const std::vector<at::Tensor>& gradients, ProcessGroup* shard_group,
                            at::Device device) {
  at::Tensor sum_of_squares = at::stack(norms_of_parts(gradients)).square().sum().to(device);
  if (shard_group != nullptr) shard_group->all_reduce(sum_of_squares).wait();
  return sum_of_squares.sqrt();
}

at::Tensor clip_divisor(const at::Tensor& norm, double max_norm) {
  return ((norm + 1e-6) / max_norm).clamp_min(1.0);
}

}  // namespace fsdp
