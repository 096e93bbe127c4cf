#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/launch.h"
#include "trainer/model/model.h"

// Compares a layer with autograd over a textbook composition.
namespace fsdp {

// A parameter of random values. Its gradient buffer is full of NaN, as a layer must overwrite it.
inline ParameterPtr random_parameter(std::vector<int64_t> shape, const at::TensorOptions& options) {
  auto parameter =
      c10::make_intrusive<Parameter>(ParameterSpec{.tensors = {{"weight", std::move(shape)}}});
  parameter->value = at::randn(parameter->shape(), options).mul_(0.3);
  parameter->gradient.tensor = at::full(parameter->shape(), NAN, options);
  return parameter;
}

// The relative distance |a - b| / |b| in fp64.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor expected = b.detach().to(at::kDouble);
  return ((a.detach().to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

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
inline Activation input(const at::Tensor& value) {
  return {value, std::make_shared<GradientBuffer>()};
}

inline at::Tensor textbook_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return weight * (x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon));
}

// x: [B, heads, T, width].
inline at::Tensor textbook_rotary(const at::Tensor& x, const at::Tensor& positions_T,
                                  double theta) {
  const int64_t width = x.size(3);
  const at::Tensor frequencies = 1.0 / at::pow(theta, at::arange(0, width, 2, x.options()) / width);
  const at::Tensor angles = at::outer(positions_T, frequencies);
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * angles.cos() - halves[1] * angles.sin(),
                  halves[1] * angles.cos() + halves[0] * angles.sin()},
                 -1);
}

inline Tensors leaves(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach().clone().requires_grad_());
  }
  return result;
}

using Layer = std::function<Activation(Pass&, const std::vector<Activation>&)>;
using Textbook = std::function<at::Tensor(const Tensors&, const Tensors&)>;

// Runs `layer` on copies of `inputs`. Runs `textbook` on autograd leaves: the inputs and the
// parameters' values. Checks all gradients to `tolerance`, and the output to the larger tolerance.
// Runs the layer again and checks that its weight gradients were added. An output without its own
// gradient is a loss, with gradient 1.
inline void check_gradients(const Tensors& inputs, const std::vector<ParameterPtr>& parameters,
                            const Layer& layer, const Textbook& textbook, double tolerance,
                            double tolerance_of_value = 0) {
  Tensors values;
  for (const ParameterPtr& parameter : parameters) values.push_back(parameter->value);
  const Tensors expected_inputs = leaves(inputs);
  const Tensors expected_values = leaves(values);
  const at::Tensor expected = textbook(expected_inputs, expected_values);
  const at::Tensor dy = expected.dim() == 0 ? at::ones_like(expected) : at::randn_like(expected);
  Tensors wanted = expected_inputs;
  wanted.insert(wanted.end(), expected_values.begin(), expected_values.end());
  const Tensors expected_gradients = torch::autograd::grad({expected}, wanted, {dy});

  for (int pass = 1; pass <= 2; ++pass) {
    INFO("pass " << pass);
    LayerCall call;
    std::vector<Activation> activations;
    for (const at::Tensor& tensor : inputs) activations.push_back(input(tensor.clone()));
    const Activation actual = layer(call.pass, activations);
    CHECK(relative_error(actual.value, expected) < std::max(tolerance, tolerance_of_value));
    if (actual.gradient) actual.gradient->add(dy.to(actual.value.scalar_type()).clone());
    call.tape.run_backward();
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFO("input " << i);
      CHECK(relative_error(activations[i].gradient->take(), expected_gradients[i]) < tolerance);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      INFO("parameter " << i);
      CHECK(parameters[i]->gradient.is_written);
      CHECK(relative_error(parameters[i]->gradient.tensor,
                           expected_gradients[inputs.size() + i] * pass) < tolerance);
    }
  }
}

}  // namespace fsdp
