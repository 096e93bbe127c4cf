#pragma once

#include <span>

#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// Makes T5 and its version 1.1, numerically equal to Hugging Face's T5ForConditionalGeneration. The
// modules are the embedding, which encoder and decoder share, the encoder's blocks and final norm,
// the decoder's blocks, and the decoder's final norm with head and loss (see
// contract/families/t5.cpp). A stack's first block writes the bias of distances that all of its
// blocks add. Every block of the decoder reads the encoder's output.
//
// The batch needs decoder_input_ids. Its seed determines dropout.
Model make_t5(const ModelConfig& config, std::span<const ModuleSpec> modules);

}  // namespace fsdp
