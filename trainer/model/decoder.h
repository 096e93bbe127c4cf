#pragma once

#include <span>

#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// Makes decoder-only models with rotary embeddings, RMSNorm and SwiGLU, numerically like
// Hugging Face's (LlamaForCausalLM and others). The modules are the token embedding, each
// transformer block, and the final norm with head and loss (see contract/families/decoder.cpp).
// Families differ in the parameters of their blocks. With tied embeddings, the last module reads
// the first one's weight, so the first module is_shared(). Rotary tables are rounded to
// `buffer_type` before they get the activations' type.
Model make_decoder(const ModelConfig& config, std::span<const ModuleSpec> modules,
                   at::ScalarType buffer_type);

}  // namespace fsdp
