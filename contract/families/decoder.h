#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "contract/families/hugging_face_config.h"
#include "contract/families/model_config.h"
#include "contract/families/module_spec.h"

// What decoder-only families with rotary embeddings share.
namespace fsdp {

// What one such family has that another has not.
struct DecoderTraits {
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool head_norms = false;  // RMSNorm of each query and key head
};

// Throws ConfigError (place empty) unless the heads have an even width, the query heads are a
// multiple of the key and value heads, and the rotary embedding's scaling is a range.
void check_decoder(const ModelConfig& config);

// Embedding, blocks, and norm with head, under the names that all of them have in checkpoints.
std::vector<ModuleGroup> decoder_modules(const ModelConfig& config, const DecoderTraits& traits);

// The keys that config.json has of every such family. `config`: the family's own defaults. Throws
// ConfigError (place: the file).
ModelConfig read_decoder_config(const HuggingFaceConfig& file, ModelConfig config);

// What config.json has of every such family, for versions 4 and 5 of transformers.
nlohmann::ordered_json decoder_config(const ModelConfig& config);

// Older checkpoints hold the rotary embedding's constants.
bool may_be_left_by_decoder(std::string_view tensor);

}  // namespace fsdp
