#pragma once

#include "contract/families/family.h"

namespace fsdp {

// T5 (Raffel et al. 2020) and its version 1.1, as T5ForConditionalGeneration. Modules and their
// parameters:
//
//   shared                    weight
//   encoder.block.<N>         relative_bias in block 0; attention_norm, query, key_value,
//                             attention_output; mlp_norm, wi, wo
//   encoder.final_layer_norm  weight
//   decoder.block.<N>         the same, and cross_norm, cross_query, cross_key_value, cross_output
//   lm_head                   norm; weight, unless embeddings are tied
//
// wi: one weight, or with a gate two stacked.
ModelFamily t5_family();

}  // namespace fsdp
