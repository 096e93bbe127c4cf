#include "tests/trainer/model/gradient_check.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>
#include <limits>

namespace fsdp {
namespace {

Tensors leaves(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach().clone().requires_grad_());
  }
  return result;
}

}  // namespace

ParameterPtr random_parameter(std::vector<int64_t> shape, const at::TensorOptions& options) {
  auto parameter =
      c10::make_intrusive<Parameter>(ParameterSpec{.tensors = {{"weight", std::move(shape)}}});
  parameter->value = at::randn(parameter->shape(), options).mul_(0.3);
  parameter->gradient.tensor =
      at::full(parameter->shape(), std::numeric_limits<double>::quiet_NaN(), options);
  return parameter;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor expected = b.detach().to(at::kDouble);
  return ((a.detach().to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

Activation input(const at::Tensor& value) { return {value, std::make_shared<GradientBuffer>()}; }

void check_gradients(const Tensors& inputs, const std::vector<ParameterPtr>& parameters,
                     const std::function<Activation(Pass&, const std::vector<Activation>&)>& layer,
                     const std::function<at::Tensor(const Tensors&, const Tensors&)>& reference,
                     double tolerance) {
  Tensors values;
  for (const ParameterPtr& parameter : parameters) values.push_back(parameter->value);
  const Tensors expected_inputs = leaves(inputs);
  const Tensors expected_values = leaves(values);
  const at::Tensor expected = reference(expected_inputs, expected_values);
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
    CHECK(relative_error(actual.value, expected) < tolerance);
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
