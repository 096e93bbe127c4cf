#include "contract/families/qwen.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"

namespace fsdp {
namespace {

// Of both: windows in some layers only are not built, and no published model has them.
ModelConfig read_qwen(const HuggingFaceConfig& file, ModelConfig defaults) {
  file.require({"num_key_value_heads"});
  file.require_value("use_sliding_window", false);
  for (const nlohmann::json& layer : file.find("layer_types")) {
    if (layer != "full_attention") {
      file.refuse("layer_types", layer.dump() + " is not supported; allowed: \"full_attention\"");
    }
  }
  return read_decoder_config(file, std::move(defaults));
}

ModelConfig read_qwen2(const HuggingFaceConfig& file) {
  return read_qwen(  // Qwen2Config's defaults
      file, {.rms_norm_eps = 1e-6, .max_position_embeddings = 32768});
}

ModelConfig read_qwen3(const HuggingFaceConfig& file) {
  return read_qwen(  // Qwen3Config's defaults
      file, {.head_dim = 128, .rms_norm_eps = 1e-6, .max_position_embeddings = 32768});
}

nlohmann::ordered_json write_qwen2(const ModelConfig& config) {
  nlohmann::ordered_json json = decoder_config(config, "qwen2");
  json["use_sliding_window"] = false;
  return json;
}

nlohmann::ordered_json write_qwen3(const ModelConfig& config) {
  nlohmann::ordered_json json = decoder_config(config, "qwen3");
  json["use_sliding_window"] = false;
  return json;
}

std::vector<ModuleGroup> qwen2_modules(const ModelConfig& config) {
  return decoder_modules(config, {.query_key_value_bias = true});
}

std::vector<ModuleGroup> qwen3_modules(const ModelConfig& config) {
  return decoder_modules(config, {.query_key_value_bias = config.attention_bias,
                                  .attention_output_bias = config.attention_bias,
                                  .head_norms = true});
}

}  // namespace

ModelFamily qwen2_family() {
  return {.architecture = "Qwen2ForCausalLM",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"initializer_range", "max_position_embeddings", "num_key_value_heads",
                       "rope_scaling", "rope_theta"},
          .read_config = read_qwen2,
          .write_config = write_qwen2,
          .check = check_decoder,
          .modules = qwen2_modules,
          .may_be_left = may_be_left_by_decoder};
}

ModelFamily qwen3_family() {
  return {.architecture = "Qwen3ForCausalLM",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"attention_bias", "initializer_range", "max_position_embeddings",
                       "num_key_value_heads", "rope_scaling", "rope_theta"},
          .read_config = read_qwen3,
          .write_config = write_qwen3,
          .check = check_decoder,
          .modules = qwen3_modules,
          .may_be_left = may_be_left_by_decoder};
}

}  // namespace fsdp
