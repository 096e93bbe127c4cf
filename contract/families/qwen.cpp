#include "contract/families/qwen.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"

namespace fsdp {
namespace {

using nlohmann::json;

// Refuses windows in only some layers, which are not supported.
void refuse_windows(const HuggingFaceConfig& file) {
  const json types = file.find("layer_types");
  const json is_used = file.find("use_sliding_window");
  const json window = file.find("sliding_window");
  const json first = file.find("max_window_layers");
  for (const json& layer : types) {
    if (layer != "full_attention") {
      file.refuse("layer_types", layer.dump() + " is not supported; allowed: \"full_attention\"");
    }
  }
  const bool has_window = is_used == true && !(file.has("sliding_window") && window.is_null());
  const json first_by_default = 28;
  if (types.is_null() && has_window &&
      (first.is_null() ? first_by_default : first) < file.find("num_hidden_layers")) {
    file.refuse("use_sliding_window",
                "true gives the layers from max_window_layers on a window, which is not supported; "
                "allowed: false");
  }
}

ModelConfig read_qwen(const HuggingFaceConfig& file, ModelConfig defaults) {
  ModelConfig config = read_decoder_config(file, std::move(defaults));
  refuse_windows(file);
  return config;
}

ModelConfig read_qwen2(const HuggingFaceConfig& file) {
  return read_qwen(file, {.architecture = "Qwen2ForCausalLM",  // Qwen2Config's defaults
                          .num_key_value_heads = 32,
                          .rms_norm_eps = 1e-6,
                          .max_position_embeddings = 32768});
}

ModelConfig read_qwen3(const HuggingFaceConfig& file) {
  return read_qwen(file, {.architecture = "Qwen3ForCausalLM",  // Qwen3Config's defaults
                          .num_key_value_heads = 32,
                          .head_dim = 128,
                          .rms_norm_eps = 1e-6,
                          .max_position_embeddings = 32768});
}

nlohmann::ordered_json write_qwen(const ModelConfig& config) {
  nlohmann::ordered_json object = decoder_config(config);
  object["use_sliding_window"] = false;
  return object;
}

std::vector<ModuleGroup> qwen2_modules(const ModelConfig& config) {
  return decoder_modules(config, {.query_key_value_bias = true});
}

std::vector<ModuleGroup> qwen3_modules(const ModelConfig& config) {
  return decoder_modules(config, {.query_key_value_bias = config.attention_bias,
                                  .attention_output_bias = config.attention_bias,
                                  .head_norms = true});
}

std::vector<Preset> qwen2_presets() {
  const ModelConfig small{.architecture = "Qwen2ForCausalLM",
                          .num_hidden_layers = 24,
                          .hidden_size = 896,
                          .intermediate_size = 4864,
                          .num_attention_heads = 14,
                          .num_key_value_heads = 2,
                          .vocab_size = 151936,
                          .rope_theta = 1e6,
                          .rms_norm_eps = 1e-6,
                          .tie_word_embeddings = true,
                          .max_position_embeddings = 32768};
  ModelConfig large = small;
  large.num_hidden_layers = 28;
  large.hidden_size = 3584;
  large.intermediate_size = 18944;
  large.num_attention_heads = 28;
  large.num_key_value_heads = 4;
  large.vocab_size = 152064;
  large.tie_word_embeddings = false;
  large.max_position_embeddings = 131072;
  return {{"qwen2.5-0.5b", small}, {"qwen2.5-7b", large}};
}

std::vector<Preset> qwen3_presets() {
  const ModelConfig small{.architecture = "Qwen3ForCausalLM",
                          .num_hidden_layers = 28,
                          .hidden_size = 1024,
                          .intermediate_size = 3072,
                          .num_attention_heads = 16,
                          .num_key_value_heads = 8,
                          .head_dim = 128,
                          .vocab_size = 151936,
                          .rope_theta = 1e6,
                          .rms_norm_eps = 1e-6,
                          .tie_word_embeddings = true,
                          .max_position_embeddings = 40960};
  ModelConfig large = small;
  large.num_hidden_layers = 36;
  large.hidden_size = 4096;
  large.intermediate_size = 12288;
  large.num_attention_heads = 32;
  large.tie_word_embeddings = false;
  return {{"qwen3-0.6b", small}, {"qwen3-8b", large}};
}

}  // namespace

ModelFamily qwen2_family() {
  return {.architecture = "Qwen2ForCausalLM",
          .model_type = "qwen2",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"initializer_range", "max_position_embeddings", "num_key_value_heads",
                       "padding_idx", "rope_scaling", "rope_theta"},
          .read_config = read_qwen2,
          .write_config = write_qwen,
          .check = check_decoder,
          .modules = qwen2_modules,
          .may_be_left = may_be_left_by_decoder,
          .presets = qwen2_presets()};
}

ModelFamily qwen3_family() {
  return {.architecture = "Qwen3ForCausalLM",
          .model_type = "qwen3",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"attention_bias", "initializer_range", "max_position_embeddings",
                       "num_key_value_heads", "padding_idx", "rope_scaling", "rope_theta"},
          .read_config = read_qwen3,
          .write_config = write_qwen,
          .check = check_decoder,
          .modules = qwen3_modules,
          .may_be_left = may_be_left_by_decoder,
          .presets = qwen3_presets()};
}

}  // namespace fsdp
