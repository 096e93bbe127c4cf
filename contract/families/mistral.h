#pragma once

#include "contract/families/family.h"

namespace fsdp {

// Mistral 7B (Jiang et al. 2023), as MistralForCausalLM. v0.1 attends within a sliding window.
ModelFamily mistral_family();

}  // namespace fsdp
