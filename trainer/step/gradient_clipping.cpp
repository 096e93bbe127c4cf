// Measures the gradients' norm in fp32 or wider, and the divisor that clips them.
#include "trainer/step/gradient_clipping.h"

#include <algorithm>

#include "trainer/kernels/launch.h"
#include "trainer/kernels/wide_type.h"
#include "trainer/kernels/work.h"

namespace fsdp {
namespace {

// Allocates as _foreach_norm of libtorch 2.11 does on a GPU (ForeachReduceOp.cu). Every tensor gets
// as many sums as the largest one has chunks.
Tensors planned_norms(const std::vector<at::Tensor>& gradients) {
  constexpr int64_t kChunk = 1 << 16;
  const at::TensorOptions wide = gradients.front().options().dtype(wide_type(gradients.front()));
  int64_t chunks = 0;
  for (const at::Tensor& gradient : gradients) {
    chunks = std::max(chunks, (gradient.numel() + kChunk - 1) / kChunk);
  }
  const auto count = static_cast<int64_t>(gradients.size());
  const at::Tensor sums = at::empty({count * chunks}, wide);
  Tensors norms;
  for (int64_t i = 0; i < count; ++i) norms.push_back(at::empty({}, wide));
  return norms;
}

}  // namespace

// Splits 16-bit gradients on the CPU, because libtorch would convert a whole gradient to fp32 at
// once.
std::vector<at::Tensor> norms_of_parts(const std::vector<at::Tensor>& gradients,
                                       c10::DeviceType device) {
  constexpr int64_t kPart = 1 << 18;
  if (device != at::kCPU) {
    return launch_operator(
        "_foreach_norm", gradients,
        [&] { return at::_foreach_norm(gradients, 2, wide_type(gradients.front())); },
        [&] { return planned_norms(gradients); });
  }
  if (!at::isReducedFloatingType(gradients.front().scalar_type())) {
    return at::_foreach_norm(gradients, 2, wide_type(gradients.front()));
  }
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    for (const at::Tensor& part : gradient.split(kPart)) {
      norms.push_back(at::linalg_vector_norm(part.to(at::kFloat)));
    }
  }
  return norms;
}

at::Tensor global_norm_of(const std::vector<at::Tensor>& norms, ProcessGroup* shard_group,
                          at::Device device) {
  at::Tensor sum_of_squares = at::stack(norms).square().sum().to(device);
  if (shard_group != nullptr) {
    const WorkScope wait(TimePart::kAllReduce);
    shard_group->all_reduce(sum_of_squares).wait();
  }
  return sum_of_squares.sqrt();
}

at::Tensor clip_divisor(const at::Tensor& norm, double max_norm) {
  return ((norm + 1e-6) / max_norm).clamp_min(1.0);
}

}  // namespace fsdp
