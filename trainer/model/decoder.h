#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// Decoder-only models with rotary embeddings, RMSNorm and SwiGLU, numerically those of Hugging Face
// (LlamaForCausalLM and others). Modules: the token embedding, each transformer block, and the
// final norm with head and loss (see contract/families/decoder.h). A family is told from another
// by the parameters that its blocks have. With tied embeddings the last module reads the first
// one's weight, which then is_shared(). Rotary tables are rounded to `buffer_type` before they get
// the activations' type.
Model make_decoder(const ModelConfig& config, at::ScalarType buffer_type);

}  // namespace fsdp
