#pragma once

#include <string>
#include <utility>
#include <vector>

#include "contract/families/family.h"

// The decoder-only families, which all have rotary embeddings. Modules and their parameters:
//
//   model.embed_tokens      weight
//   model.layers.<N>        attention_norm, query_key_value, query_norm and key_norm of Qwen3,
//                           attention_output, mlp_norm, gate_up, down
//   lm_head                 norm; weight, unless embeddings are tied
//
// A bias follows its weight.
namespace fsdp {

ModelFamily llama_family();
// Mistral 7B (Jiang et al. 2023). v0.1 attends within a sliding window.
ModelFamily mistral_family();
// Qwen2 and Qwen2.5 (Yang et al. 2024). The products of queries, keys and values have biases.
ModelFamily qwen2_family();
// Qwen3 (Yang et al. 2025). Query and key heads are normed.
ModelFamily qwen3_family();

// The kinds of parameters that all families have.
inline ParameterSpec weight_spec(std::string name, std::vector<NamedTensor> tensors,
                                 double standard_deviation) {
  return {.name = std::move(name),
          .tensors = std::move(tensors),
          .standard_deviation = standard_deviation};
}

// The weight [width] of a norm.
inline ParameterSpec norm_spec(std::string name, std::string tensor, int64_t width) {
  return {.name = std::move(name),
          .tensors = {{std::move(tensor), {width}}},
          .initialization = Initialization::kOnes,
          .role = ParameterRole::kNorm};
}

}  // namespace fsdp
