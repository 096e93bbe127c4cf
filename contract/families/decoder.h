#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "contract/families/model_config.h"
#include "contract/families/module_spec.h"

// What decoder-only families with rotary embeddings share.
namespace fsdp {

// Throws ConfigError (place empty) unless the heads have one even width, and the query heads are a
// multiple of the key and value heads.
void check_heads(const ModelConfig& config);

// What config.json has of every such family, for versions 4 and 5 of transformers.
nlohmann::ordered_json decoder_config(const ModelConfig& config, std::string_view model_type);

// Older checkpoints hold the rotary embedding's constants; tied ones may hold the head.
bool may_be_left_by_decoder(const ModelConfig& config, std::string_view tensor);

// A weight with random values; the weight [hidden_size] of a norm.
ParameterSpec weight_spec(const ModelConfig& config, std::string name,
                          std::vector<NamedTensor> tensors);
ParameterSpec norm_spec(const ModelConfig& config, std::string name, std::string tensor);

}  // namespace fsdp
