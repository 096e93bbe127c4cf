#pragma once

#include "contract/families/family.h"

namespace fsdp {

// Qwen2 and Qwen2.5 (Yang et al. 2024), as Qwen2ForCausalLM. The products of queries, keys and
// values have biases.
ModelFamily qwen2_family();

// Qwen3 (Yang et al. 2025), as Qwen3ForCausalLM. Query and key heads are normed.
ModelFamily qwen3_family();

}  // namespace fsdp
