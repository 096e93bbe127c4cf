#include "contract/families/mistral.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"

namespace fsdp {
namespace {

ModelConfig read_mistral(const HuggingFaceConfig& file) {
  file.require({"num_key_value_heads"});
  ModelConfig config = read_decoder_config(  // MistralConfig's defaults
      file, {.rms_norm_eps = 1e-6, .max_position_embeddings = 131072});
  if (!file.has("sliding_window")) config.sliding_window = 4096;
  return config;
}

nlohmann::ordered_json write_mistral(const ModelConfig& config) {
  nlohmann::ordered_json json = decoder_config(config, "mistral");
  json["sliding_window"] = nullptr;  // absent would be MistralConfig's default
  if (config.sliding_window) json["sliding_window"] = *config.sliding_window;
  return json;
}

std::vector<ModuleGroup> mistral_modules(const ModelConfig& config) {
  return decoder_modules(config, {});
}

}  // namespace

ModelFamily mistral_family() {
  return {.architecture = "MistralForCausalLM",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"initializer_range", "max_position_embeddings", "num_key_value_heads",
                       "rope_scaling", "rope_theta", "sliding_window"},
          .read_config = read_mistral,
          .write_config = write_mistral,
          .check = check_decoder,
          .modules = mistral_modules,
          .may_be_left = may_be_left_by_decoder};
}

}  // namespace fsdp
