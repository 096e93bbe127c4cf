#include "trainer/model/node.h"

namespace fsdp {

void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   bool accumulate, double scale) {
  at::Tensor target = out;
  at::addmm_out(target, target, a, b, accumulate ? 1 : 0, scale);
}

void write_product_gradient(Parameter& weight, const at::Tensor& a, const at::Tensor& b,
                            double scale) {
  multiply_into(weight.gradient, a, b, weight.gradient_written, scale);
  weight.gradient_written = true;
}

void write_gradient(Parameter& weight, const at::Tensor& gradient) {
  if (weight.gradient_written) {
    weight.gradient.add_(gradient);
  } else {
    weight.gradient.copy_(gradient);
  }
  weight.gradient_written = true;
}

}  // namespace fsdp
