#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/model/model.h"

// Trains a whole model without an engine.
namespace fsdp {

template <typename Visit>
void for_each_parameter(const Model& model, Visit visit) {
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) visit(*parameter);
  }
}

inline std::map<std::string, at::Tensor> by_name(
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

// Gives parameters random values, and gradient buffers full of NaN, which a step must overwrite.
inline void attach_parameters(Model& model, const at::TensorOptions& options) {
  for_each_parameter(model, [&](Parameter& parameter) {
    parameter.value = at::randn(parameter.shape(), options).mul_(0.2);
    parameter.gradient.tensor = at::full(parameter.shape(), std::nan(""), options);
  });
}

// Makes the next step overwrite the gradients.
inline void forget_gradients(Model& model) {
  for_each_parameter(model, [](Parameter& parameter) { parameter.gradient.is_written = false; });
}

// Runs a step as the engine does, with a tape for each module. Returns the last module's output.
inline at::Tensor forward_and_backward(Model& model, const Batch& batch,
                                       Tape::Mode mode = Tape::Mode::kRecord) {
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

// Return parameters and gradients by the tensors' names in checkpoints.
inline std::map<std::string, at::Tensor> values_of(const Model& model) {
  return by_name(model, [](const Parameter& parameter) { return parameter.value; });
}
inline std::map<std::string, at::Tensor> gradients_of(const Model& model) {
  return by_name(model, [](const Parameter& parameter) { return parameter.gradient.tensor; });
}

}  // namespace fsdp
