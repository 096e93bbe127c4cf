#include "contract/families/llama.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

ModelConfig read_llama(const HuggingFaceConfig& file) {
  ModelConfig config = read_decoder_config(file, {.rms_norm_eps = 1e-6});  // LlamaConfig's default
  if (!file.has("num_key_value_heads")) config.num_key_value_heads = config.num_attention_heads;
  return config;
}

void check_llama(const ModelConfig& config) {
  check_decoder(config);
  if (config.hidden_size % config.num_attention_heads != 0) {  // LlamaConfig refuses it
    throw ConfigError("", "num_attention_heads",
                      std::to_string(config.num_attention_heads) + " does not divide hidden_size " +
                          std::to_string(config.hidden_size));
  }
}

std::vector<ModuleGroup> llama_modules(const ModelConfig& config) {
  return decoder_modules(config, {.query_key_value_bias = config.attention_bias,
                                  .attention_output_bias = config.attention_bias,
                                  .mlp_bias = config.mlp_bias});
}

// Returns `config` with these sizes.
ModelConfig sized(int64_t layers, int64_t hidden, int64_t intermediate, int64_t heads,
                  int64_t key_value_heads, ModelConfig config) {
  config.num_hidden_layers = layers;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_attention_heads = heads;
  config.num_key_value_heads = key_value_heads;
  return config;
}

std::vector<Preset> llama_presets() {
  const ModelConfig open_llama{.vocab_size = 32000, .rms_norm_eps = 1e-6};
  const ModelConfig llama2{.vocab_size = 32000, .max_position_embeddings = 4096};
  const ModelConfig code_llama{
      .vocab_size = 32016, .rope_theta = 1e6, .max_position_embeddings = 16384};
  const ModelConfig llama3{
      .vocab_size = 128256, .rope_theta = 5e5, .max_position_embeddings = 8192};
  ModelConfig llama31 = llama3;
  llama31.rope_scaling = {RopeType::kLlama3, 8, 1, 4, 8192};
  llama31.max_position_embeddings = 131072;
  ModelConfig llama32 = llama31;
  llama32.rope_scaling.factor = 32;
  llama32.tie_word_embeddings = true;
  const ModelConfig smollm2{.vocab_size = 49152,
                            .rope_theta = 1e5,
                            .tie_word_embeddings = true,
                            .max_position_embeddings = 8192};
  return {{"llama-7b", sized(32, 4096, 11008, 32, 32, open_llama)},
          {"llama-13b", sized(40, 5120, 13824, 40, 40, open_llama)},
          {"open-llama-3b", sized(26, 3200, 8640, 32, 32, open_llama)},
          {"llama2-7b", sized(32, 4096, 11008, 32, 32, llama2)},
          {"llama2-13b", sized(40, 5120, 13824, 40, 40, llama2)},
          {"llama2-70b", sized(80, 8192, 28672, 64, 8, llama2)},
          {"codellama-7b", sized(32, 4096, 11008, 32, 32, code_llama)},
          {"tinyllama-1.1b",
           sized(22, 2048, 5632, 32, 4, {.vocab_size = 32000, .max_position_embeddings = 2048})},
          {"llama3-8b", sized(32, 4096, 14336, 32, 8, llama3)},
          {"llama3-70b", sized(80, 8192, 28672, 64, 8, llama3)},
          {"llama3.1-8b", sized(32, 4096, 14336, 32, 8, llama31)},
          {"llama3.2-1b", sized(16, 2048, 8192, 32, 8, llama32)},
          {"llama3.2-3b", sized(28, 3072, 8192, 24, 8, llama32)},
          {"smollm2-135m", sized(30, 576, 1536, 9, 3, smollm2)}};
}

}  // namespace

ModelFamily llama_family() {
  return {.architecture = "LlamaForCausalLM",
          .model_type = "llama",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"attention_bias", "mlp_bias", "initializer_range", "max_position_embeddings",
                       "num_key_value_heads", "padding_idx", "rope_scaling", "rope_theta"},
          .read_config = read_llama,
          .write_config = decoder_config,
          .check = check_llama,
          .modules = llama_modules,
          .may_be_left = may_be_left_by_decoder,
          .presets = llama_presets()};
}

}  // namespace fsdp
