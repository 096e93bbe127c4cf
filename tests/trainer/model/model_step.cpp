#include "tests/trainer/model/model_step.h"

#include <ATen/ATen.h>

#include <functional>

#include "trainer/kernels/aten_kernels.h"

namespace fsdp {
namespace {

template <typename Visit>
void for_each_parameter(const Model& model, Visit visit) {
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) visit(*parameter);
  }
}

std::map<std::string, at::Tensor> by_name(
    const Model& model, const std::function<at::Tensor(const Parameter&)>& tensor_of) {
  std::map<std::string, at::Tensor> tensors;
  for_each_parameter(model, [&](const Parameter& parameter) {
    int64_t row = 0;
    for (const NamedTensor& tensor : parameter.tensors()) {
      tensors[tensor.name] = tensor_of(parameter).narrow(0, row, tensor.shape[0]);
      row += tensor.shape[0];
    }
  });
  return tensors;
}

}  // namespace

void attach_parameters(Model& model, const at::TensorOptions& options) {
  for_each_parameter(model, [&](Parameter& parameter) {
    parameter.value = at::randn(parameter.shape(), options).mul_(0.2);
    parameter.gradient.tensor = at::full(parameter.shape(), std::nan(""), options);
  });
}

void forget_gradients(Model& model) {
  for_each_parameter(model, [](Parameter& parameter) { parameter.gradient.is_written = false; });
}

at::Tensor forward_and_backward(Model& model, const Batch& batch, Tape::Mode mode) {
  AtenKernels kernels(at::kCPU);
  Activations activations;
  std::vector<Tape> tapes(model.modules.size(), Tape(mode));
  for (size_t i = 0; i < model.modules.size(); ++i) {
    Pass pass{kernels, batch, tapes[i], activations};
    model.modules[i]->forward(pass);
  }
  for (size_t i = model.modules.size(); i-- > 0;) tapes[i].run_backward();
  return activations.at(kLoss).value;
}

std::map<std::string, at::Tensor> values_of(const Model& model) {
  return by_name(model, [](const Parameter& parameter) { return parameter.value; });
}

std::map<std::string, at::Tensor> gradients_of(const Model& model) {
  return by_name(model, [](const Parameter& parameter) { return parameter.gradient.tensor; });
}

}  // namespace fsdp
