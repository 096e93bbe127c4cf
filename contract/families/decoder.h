#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "contract/families/hugging_face_config.h"
#include "contract/families/model_config.h"
#include "contract/families/module_spec.h"

// The common parts of decoder-only families with rotary embeddings.
namespace fsdp {

// The differences between these families.
struct DecoderTraits {
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool head_norms = false;  // RMSNorm of each query and key head
};

// Throws ConfigError (place empty) unless the width of heads is even and the key and value heads
// divide the query heads. padding_idx must be in the vocabulary. For llama3, low_freq_factor must
// be below high_freq_factor.
void check_decoder(const ModelConfig& config);

// The embedding, the blocks, and the norm with the head, under their common names in checkpoints.
std::vector<ModuleGroup> decoder_modules(const ModelConfig& config, const DecoderTraits& traits);

// Reads the keys that every such family has in config.json. `config` has the family's own defaults.
// Throws ConfigError (place: the file).
ModelConfig read_decoder_config(const HuggingFaceConfig& file, ModelConfig config);

// Writes the keys that every such family has in config.json, for versions 4 and 5 of transformers.
nlohmann::ordered_json decoder_config(const ModelConfig& config);

// True for the rotary embedding's constants, which older checkpoints hold.
bool may_be_left_by_decoder(std::string_view tensor);

}  // namespace fsdp
