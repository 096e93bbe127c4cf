#pragma once

#include "trainer/contract/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// LLaMA, numerically Hugging Face's LlamaForCausalLM and with its tensor names. Units: the token
// embedding, each transformer block, and the final norm with head and loss. With tied embeddings
// the last unit reads the first one's weight, which then is_shared().
Model make_llama(const ModelConfig& config);

}  // namespace fsdp
