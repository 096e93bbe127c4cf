#include "trainer/step/gradient_clipping.h"

namespace fsdp {

at::Tensor gradient_norm_of(const std::vector<at::Tensor>& gradients, ProcessGroup* shard_group,
                            at::Device device) {
  const std::vector<at::Tensor> norms = at::_foreach_norm(gradients, 2, at::kFloat);
  at::Tensor sum_of_squares = at::stack(norms).square().sum().to(device);
  if (shard_group != nullptr) shard_group->all_reduce(sum_of_squares).wait();
  return sum_of_squares.sqrt();
}

void clip_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& norm,
                    double max_norm) {
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor.to(gradients.front().device()));
}

}  // namespace fsdp
