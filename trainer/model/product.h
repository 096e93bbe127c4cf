#pragma once

#include "trainer/model/model.h"

// Matrix products into given buffers, and the gradients of parameters.
namespace fsdp {

// out = scale * a b, or out += scale * a b. All 2-dimensional; `out` may be part of a larger
// buffer. For products with a weight (activations, and gradients of activations).
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   bool accumulate = false, double scale = 1.0);

// The gradient of `weight` gets (or grows by) scale * a b.
void write_product_gradient(Parameter& weight, const at::Tensor& a, const at::Tensor& b,
                            double scale = 1.0);

// The gradient of `weight` gets (or grows by) `gradient`, of any floating-point type.
void write_gradient(Parameter& weight, const at::Tensor& gradient);

}  // namespace fsdp
