// Drops elements by the seed alone, so that a recomputation drops the same ones.
#include <ATen/ATen.h>

#include <mutex>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/launch.h"

namespace fsdp {

// With libtorch's own dropout, the choice also depends on the alignment of the tensor in memory.
// With bernoulli_ into a new tensor, it depends only on the seed and the number of elements.
at::Tensor AtenKernels::dropped(const at::Tensor& x, const Dropout& dropout) {
  at::Tensor y = at::empty(x.sizes(), x.options());
  if (x.is_meta() && device_ == at::kCUDA) {
    // Allocates the same as below: the mask, and the result of native_dropout_backward, which
    // libtorch copies to y.
    const at::Tensor is_kept = at::empty(x.sizes(), x.options().dtype(at::kBool));
    const at::Tensor copied = at::empty(x.sizes(), x.options());
  }
  launch("dropout", {x}, {y}, [&] {
    at::Generator generator = at::globalContext().defaultGenerator(x.device());
    const at::Tensor is_kept = at::empty(x.sizes(), x.options().dtype(at::kBool));
    {
      const std::lock_guard lock(generator.mutex());
      generator.set_current_seed(dropout.seed);
    }
    is_kept.bernoulli_(1 - dropout.probability, generator);
    at::native_dropout_backward_out(y, x, is_kept, 1 / (1 - dropout.probability));
  });
  return y;
}

}  // namespace fsdp
