#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// LLaMA, numerically Hugging Face's LlamaForCausalLM. Modules: the token embedding, each
// transformer block, and the final norm with head and loss (see contract/families/llama.h). With
// tied embeddings the last module reads the first one's weight, which then is_shared(). Rotary
// tables are rounded to `buffer_type` before they get the activations' type.
Model make_llama(const ModelConfig& config, at::ScalarType buffer_type);

}  // namespace fsdp
