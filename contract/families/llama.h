#pragma once

#include "contract/families/family.h"

namespace fsdp {

// transformers' LlamaForCausalLM. Modules and their parameters:
//
//   model.embed_tokens      weight
//   model.layers.<N>        attention_norm, query_key_value, attention_output, mlp_norm, gate_up,
//                           down
//   lm_head                 norm; weight, unless embeddings are tied
ModelFamily llama_family();

}  // namespace fsdp
