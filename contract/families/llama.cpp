#include "contract/families/llama.h"

#include <nlohmann/json.hpp>

#include "contract/families/decoder.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

ModelConfig read_llama(const HuggingFaceConfig& file) {
  file.require({"num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
                "vocab_size"});
  ModelConfig config{.rms_norm_eps = 1e-6};  // LlamaConfig's default
  file.read_keys(config);
  if (file.find("num_key_value_heads").is_null()) {
    config.num_key_value_heads = config.num_attention_heads;
  }
  file.read_rope(config);
  file.require_value("attention_bias", false);
  file.require_value("mlp_bias", false);
  file.require_value("attention_dropout", 0.0);
  file.require_value("partial_rotary_factor", 1.0);
  file.require_value("hidden_act", "silu");
  return config;
}

nlohmann::ordered_json write_llama(const ModelConfig& config) {
  nlohmann::ordered_json json = decoder_config(config, "llama");
  json["hidden_act"] = "silu";
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  return json;
}

void check_llama(const ModelConfig& config) {
  check_heads(config);
  if (config.hidden_size % config.num_attention_heads != 0) {  // LlamaConfig refuses it
    throw ConfigError("", "num_attention_heads",
                      std::to_string(config.num_attention_heads) + " does not divide hidden_size " +
                          std::to_string(config.hidden_size));
  }
}

ModuleSpec llama_embedding(const ModelConfig& config) {
  return {.name = "model.embed_tokens",
          .parameters = {weight_spec(
              config, "weight",
              {{"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}}})}};
}

ModuleSpec llama_block(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t query = config.num_attention_heads * config.head_width();
  const int64_t key_value = config.num_key_value_heads * config.head_width();
  const std::string name = "model.layers." + std::to_string(layer);
  const std::string attention = name + ".self_attn.";
  const std::string mlp = name + ".mlp.";
  return {
      .name = name,
      .parameters = {norm_spec(config, "attention_norm", name + ".input_layernorm.weight"),
                     weight_spec(config, "query_key_value",
                                 {{attention + "q_proj.weight", {query, hidden}},
                                  {attention + "k_proj.weight", {key_value, hidden}},
                                  {attention + "v_proj.weight", {key_value, hidden}}}),
                     weight_spec(config, "attention_output",
                                 {{attention + "o_proj.weight", {hidden, query}}}),
                     norm_spec(config, "mlp_norm", name + ".post_attention_layernorm.weight"),
                     weight_spec(config, "gate_up",
                                 {{mlp + "gate_proj.weight", {inner, hidden}},
                                  {mlp + "up_proj.weight", {inner, hidden}}}),
                     weight_spec(config, "down", {{mlp + "down_proj.weight", {hidden, inner}}})},
      .is_block = true};
}

ModuleSpec llama_head(const ModelConfig& config) {
  ModuleSpec module{.name = "lm_head",
                    .parameters = {norm_spec(config, "norm", "model.norm.weight")}};
  if (!config.tie_word_embeddings) {
    module.parameters.push_back(weight_spec(
        config, "weight", {{"lm_head.weight", {config.vocab_size, config.hidden_size}}}));
  }
  return module;
}

std::vector<ModuleGroup> llama_modules(const ModelConfig& config) {
  return {{.module = [config](int64_t) { return llama_embedding(config); }},
          {.count = config.num_hidden_layers,
           .module = [config](int64_t layer) { return llama_block(config, layer); }},
          {.module = [config](int64_t) { return llama_head(config); }}};
}

}  // namespace

ModelFamily llama_family() {
  return {.architecture = "LlamaForCausalLM",
          .read_config = read_llama,
          .write_config = write_llama,
          .check = check_llama,
          .modules = llama_modules,
          .may_be_left = may_be_left_by_decoder};
}

}  // namespace fsdp
