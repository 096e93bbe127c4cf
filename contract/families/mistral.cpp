#include "contract/families/mistral.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"

namespace fsdp {
namespace {

ModelConfig read_mistral(const HuggingFaceConfig& file) {
  ModelConfig config = read_decoder_config(  // MistralConfig's defaults
      file, {.architecture = "MistralForCausalLM",
             .num_key_value_heads = 8,
             .rms_norm_eps = 1e-6,
             .max_position_embeddings = 131072});
  if (!file.has("sliding_window")) config.sliding_window = 4096;
  // AutoModel uses another class for such a file, with windows in some layers only.
  file.require_value("layer_types", nullptr);
  return config;
}

nlohmann::ordered_json write_mistral(const ModelConfig& config) {
  nlohmann::ordered_json json = decoder_config(config);
  json["sliding_window"] = nullptr;  // absent would be MistralConfig's default
  if (config.sliding_window) json["sliding_window"] = *config.sliding_window;
  return json;
}

std::vector<ModuleGroup> mistral_modules(const ModelConfig& config) {
  return decoder_modules(config, {});
}

std::vector<Preset> mistral_presets() {
  ModelConfig v1{.architecture = "MistralForCausalLM",
                 .num_hidden_layers = 32,
                 .hidden_size = 4096,
                 .intermediate_size = 14336,
                 .num_attention_heads = 32,
                 .num_key_value_heads = 8,
                 .vocab_size = 32000,
                 .max_position_embeddings = 32768};
  ModelConfig v3 = v1;
  v1.sliding_window = 4096;
  v3.vocab_size = 32768;
  v3.rope_theta = 1e6;
  return {{"mistral-7b-v0.1", v1}, {"mistral-7b", v3}};
}

}  // namespace

ModelFamily mistral_family() {
  return {.architecture = "MistralForCausalLM",
          .model_type = "mistral",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"initializer_range", "max_position_embeddings", "num_key_value_heads",
                       "padding_idx", "rope_scaling", "rope_theta", "sliding_window"},
          .read_config = read_mistral,
          .write_config = write_mistral,
          .check = check_decoder,
          .modules = mistral_modules,
          .may_be_left = may_be_left_by_decoder,
          .presets = mistral_presets()};
}

}  // namespace fsdp
