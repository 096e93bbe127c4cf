#include "contract/families/decoder.h"

#include <nlohmann/json.hpp>

#include "contract/text/config_error.h"

namespace fsdp {

using nlohmann::ordered_json;

void check_heads(const ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const bool is_odd = config.head_width() % 2 != 0;
  if (!config.head_dim && (is_odd || config.hidden_size % heads != 0)) {
    throw ConfigError("", "num_attention_heads",
                      std::to_string(heads) + " does not divide hidden_size " +
                          std::to_string(config.hidden_size) + " into heads of an even width");
  }
  if (is_odd) {
    throw ConfigError("", "head_dim",
                      std::to_string(*config.head_dim) + " is odd; allowed: even numbers");
  }
  if (heads % config.num_key_value_heads != 0) {
    throw ConfigError("", "num_key_value_heads",
                      std::to_string(config.num_key_value_heads) +
                          " does not divide num_attention_heads " + std::to_string(heads));
  }
}

ordered_json decoder_config(const ModelConfig& config, std::string_view model_type) {
  ordered_json json;
  json["architectures"] = ordered_json::array({config.architecture});
  json["model_type"] = model_type;
  ModelConfig::visit_fields(config, [&]<typename T>(const char* name, const T& member, auto&&...) {
    if constexpr (std::is_arithmetic_v<T>) json[name] = member;
  });
  json["head_dim"] = config.head_width();
  // transformers 5 reads this, earlier versions rope_theta.
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", config.rope_theta}};
  return json;
}

bool may_be_left_by_decoder(const ModelConfig& config, std::string_view tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq") ||
         (config.tie_word_embeddings && tensor == "lm_head.weight");
}

ParameterSpec weight_spec(const ModelConfig& config, std::string name,
                          std::vector<NamedTensor> tensors) {
  return {.name = std::move(name),
          .tensors = std::move(tensors),
          .standard_deviation = config.initializer_range};
}

ParameterSpec norm_spec(const ModelConfig& config, std::string name, std::string tensor) {
  return {.name = std::move(name),
          .tensors = {{std::move(tensor), {config.hidden_size}}},
          .initialization = Initialization::kOnes,
          .role = ParameterRole::kNorm};
}

}  // namespace fsdp
