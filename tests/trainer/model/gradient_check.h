#pragma once

#include <functional>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/launch.h"
#include "trainer/model/model.h"

// Compares a layer with autograd over a textbook composition.
namespace fsdp {

// A parameter of random values. Its gradient buffer is full of NaN, as a layer must overwrite it.
ParameterPtr random_parameter(std::vector<int64_t> shape, const at::TensorOptions& options);

// The relative distance |a - b| / |b| in fp64.
double relative_error(const at::Tensor& a, const at::Tensor& b);

// The arguments of a layer that is called on its own.
struct LayerCall {
  explicit LayerCall(Tape::Mode mode = Tape::Mode::kRecord) : tape(mode) {}

  AtenKernels kernels{at::kCPU};
  Batch batch;
  Tape tape;
  Activations activations;
  Pass pass{kernels, batch, tape, activations};
};

// Returns `value` as a layer's input that wants a gradient.
Activation input(const at::Tensor& value);

// Runs `layer` on copies of `inputs`. Runs `reference` on autograd leaves: the inputs and the
// parameters' values. Checks output and all gradients to `tolerance`. Runs the layer again and
// checks that its weight gradients were added. An output without its own gradient is a loss, with
// gradient 1.
void check_gradients(const Tensors& inputs, const std::vector<ParameterPtr>& parameters,
                     const std::function<Activation(Pass&, const std::vector<Activation>&)>& layer,
                     const std::function<at::Tensor(const Tensors&, const Tensors&)>& reference,
                     double tolerance);

}  // namespace fsdp
