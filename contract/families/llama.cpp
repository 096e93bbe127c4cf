#include "contract/families/llama.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

ModelConfig read_llama(const HuggingFaceConfig& file) {
  return read_decoder_config(file, {.rms_norm_eps = 1e-6});  // LlamaConfig's default
}

nlohmann::ordered_json write_llama(const ModelConfig& config) {
  return decoder_config(config, "llama");
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

}  // namespace

ModelFamily llama_family() {
  return {.architecture = "LlamaForCausalLM",
          .structure = ModelStructure::kDecoder,
          .own_keys = {"attention_bias", "mlp_bias", "initializer_range", "max_position_embeddings",
                       "num_key_value_heads", "rope_scaling", "rope_theta"},
          .read_config = read_llama,
          .write_config = write_llama,
          .check = check_llama,
          .modules = llama_modules,
          .may_be_left = may_be_left_by_decoder};
}

}  // namespace fsdp
