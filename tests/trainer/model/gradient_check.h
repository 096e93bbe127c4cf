#pragma once

#include <functional>
#include <string>

#include "trainer/model/model.h"

// How the tests compare a layer with plain autograd over a textbook composition.
namespace fsdp {

// A parameter of random values, with a gradient buffer full of NaN: what a layer must overwrite.
ParameterPtr random_parameter(std::vector<int64_t> shape, const at::TensorOptions& options);

// The relative distance |a - b| / |b| in fp64.
double relative_error(const at::Tensor& a, const at::Tensor& b);

using Tensors = std::vector<at::Tensor>;

// Runs `layer` on copies of `inputs` and `reference` on the inputs and the parameters' values, all
// as autograd leaves, and checks output and all gradients to `tolerance`; then runs the layer again
// and checks that its weight gradients were added.
void check_gradients(const Tensors& inputs, const std::vector<ParameterPtr>& parameters,
                     const std::function<at::Tensor(const Tensors&)>& layer,
                     const std::function<at::Tensor(const Tensors&, const Tensors&)>& reference,
                     double tolerance);

}  // namespace fsdp
