#pragma once

#include <map>
#include <string>

#include "trainer/model/model.h"

// How the tests train a whole model without an engine.
namespace fsdp {

// Random values. Gradient buffers are full of NaN, as a step must overwrite them.
void attach_parameters(Model& model, const at::TensorOptions& options);
// The next step overwrites the gradients.
void forget_gradients(Model& model);

// The step as the engine takes it: a tape for each module. Returns what the last one wrote.
at::Tensor forward_and_backward(Model& model, const Batch& batch,
                                Tape::Mode mode = Tape::Mode::kRecord);

// By the tensors' names in checkpoints.
std::map<std::string, at::Tensor> values_of(const Model& model);
std::map<std::string, at::Tensor> gradients_of(const Model& model);

}  // namespace fsdp
