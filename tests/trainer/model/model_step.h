#pragma once

#include <map>
#include <string>

#include "trainer/model/model.h"

// Trains a whole model without an engine.
namespace fsdp {

// Gives parameters random values, and gradient buffers full of NaN, which a step must overwrite.
void attach_parameters(Model& model, const at::TensorOptions& options);
// Makes the next step overwrite the gradients.
void forget_gradients(Model& model);

// Runs a step as the engine does, with a tape for each module. Returns the last module's output.
at::Tensor forward_and_backward(Model& model, const Batch& batch,
                                Tape::Mode mode = Tape::Mode::kRecord);

// Return parameters and gradients by the tensors' names in checkpoints.
std::map<std::string, at::Tensor> values_of(const Model& model);
std::map<std::string, at::Tensor> gradients_of(const Model& model);

}  // namespace fsdp
