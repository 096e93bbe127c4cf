#include "contract/families/decoder.h"

#include <nlohmann/json.hpp>

#include "contract/families/family.h"
#include "contract/families/parameter_specs.h"
#include "contract/text/config_error.h"
#include "contract/text/numbers.h"

namespace fsdp {

using nlohmann::ordered_json;

namespace {

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

void check_padding(const ModelConfig& config) {
  if (!config.padding_idx || *config.padding_idx < config.vocab_size) return;
  throw ConfigError(
      "", "padding_idx",
      std::to_string(*config.padding_idx) + " is not in the vocabulary; allowed: 0 to " +
          std::to_string(config.vocab_size - 1) + " (config.json names it pad_token_id)");
}

void check_rope(const RopeScaling& rope) {
  if (rope.type == RopeType::kLlama3 && rope.low_freq_factor >= rope.high_freq_factor) {
    throw ConfigError("", "rope_scaling.low_freq_factor",
                      shortest(rope.low_freq_factor) + " is not below high_freq_factor " +
                          shortest(rope.high_freq_factor));
  }
}

// The bias of a weight. Its tensors have the names before ".weight" and the rows of the weight's.
ParameterSpec bias_spec(const ParameterSpec& weight) {
  ParameterSpec bias{.name = weight.name + "_bias",
                     .tensors = {},
                     .initialization = Initialization::kZeros,
                     .role = ParameterRole::kBias};
  for (const NamedTensor& tensor : weight.tensors) {
    const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
    bias.tensors.push_back({stem + ".bias", {tensor.shape.front()}});
  }
  return bias;
}

ModuleSpec embedding_module(const ModelConfig& config) {
  return {.name = "model.embed_tokens",
          .parameters = {weight_spec(
              "weight", {{"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}}},
              config.initializer_range)}};
}

ModuleSpec block_module(const ModelConfig& config, const DecoderTraits& traits, int64_t layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t width = config.head_width();
  const int64_t query = config.num_attention_heads * width;
  const int64_t key_value = config.num_key_value_heads * width;
  const std::string name = "model.layers." + std::to_string(layer);
  const std::string attention = name + ".self_attn.";
  const std::string mlp = name + ".mlp.";
  ModuleSpec block{.name = name, .is_block = true};
  const double deviation = config.initializer_range;
  const auto add = [&](ParameterSpec weight, bool has_bias = false) {
    block.parameters.push_back(std::move(weight));
    if (has_bias) block.parameters.push_back(bias_spec(block.parameters.back()));
  };
  add(norm_spec("attention_norm", name + ".input_layernorm.weight", hidden));
  add(weight_spec("query_key_value",
                  {{attention + "q_proj.weight", {query, hidden}},
                   {attention + "k_proj.weight", {key_value, hidden}},
                   {attention + "v_proj.weight", {key_value, hidden}}},
                  deviation),
      traits.query_key_value_bias);
  if (traits.head_norms) {
    add(norm_spec("query_norm", attention + "q_norm.weight", width));
    add(norm_spec("key_norm", attention + "k_norm.weight", width));
  }
  add(weight_spec("attention_output", {{attention + "o_proj.weight", {hidden, query}}}, deviation),
      traits.attention_output_bias);
  add(norm_spec("mlp_norm", name + ".post_attention_layernorm.weight", hidden));
  add(weight_spec(
          "gate_up",
          {{mlp + "gate_proj.weight", {inner, hidden}}, {mlp + "up_proj.weight", {inner, hidden}}},
          deviation),
      traits.mlp_bias);
  add(weight_spec("down", {{mlp + "down_proj.weight", {hidden, inner}}}, deviation),
      traits.mlp_bias);
  return block;
}

ModuleSpec head_module(const ModelConfig& config) {
  ModuleSpec module{.name = "lm_head",
                    .parameters = {norm_spec("norm", "model.norm.weight", config.hidden_size)}};
  if (!config.tie_word_embeddings) {
    module.parameters.push_back(
        weight_spec("weight", {{"lm_head.weight", {config.vocab_size, config.hidden_size}}},
                    config.initializer_range));
  }
  return module;
}

// transformers 5 reads all of it; earlier versions read rope_theta, and the rest in rope_scaling.
ordered_json rope_parameters(const ModelConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  ordered_json json = {{"rope_type", name_of(rope.type)}, {"rope_theta", config.rope_theta}};
  if (rope.type != RopeType::kDefault) json["factor"] = rope.factor;
  if (rope.type == RopeType::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  return json;
}

// torch.nn.Embedding counts a negative padding_idx from the end of the vocabulary.
HuggingFaceConfig with_padding_from_start(const HuggingFaceConfig& file) {
  const nlohmann::json padding = file.find("padding_idx");
  const nlohmann::json size = file.find("vocab_size");
  const bool is_counted = padding.is_number_integer() && padding < 0 && size.is_number_integer() &&
                          size > 0 && size <= 100'000'000;
  if (!is_counted) return file;
  return file.with("padding_idx", padding.get<int64_t>() + size.get<int64_t>());
}

}  // namespace

void check_decoder(const ModelConfig& config) {
  check_heads(config);
  check_padding(config);
  check_rope(config.rope_scaling);
}

std::vector<ModuleGroup> decoder_modules(const ModelConfig& config, const DecoderTraits& traits) {
  return {
      {.module = [config](int64_t) { return embedding_module(config); }},
      {.count = config.num_hidden_layers,
       .module = [config, traits](int64_t layer) { return block_module(config, traits, layer); }},
      {.module = [config](int64_t) { return head_module(config); }}};
}

ModelConfig read_decoder_config(const HuggingFaceConfig& file, ModelConfig config) {
  file.require({"num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
                "vocab_size"});
  with_padding_from_start(file.renamed({{"padding_idx", "pad_token_id"}})).read_keys(config);
  if (file.has("num_key_value_heads") && file.find("num_key_value_heads").is_null()) {
    config.num_key_value_heads = config.num_attention_heads;
  }
  file.read_rope(config);
  file.require_value("attention_dropout", 0.0);
  file.require_value("partial_rotary_factor", 1.0);
  file.require_value("hidden_act", "silu");
  return config;
}

ordered_json decoder_config(const ModelConfig& config) {
  ordered_json json;
  const ModelFamily& family = family_of(config);
  json["architectures"] = ordered_json::array({config.architecture});
  json["model_type"] = family.model_type;
  ModelConfig::visit_fields(config, [&]<typename T>(const char* name, const T& member, auto&&...) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (takes_key(family, name)) json[name] = member;
    }
  });
  if (config.padding_idx) json["pad_token_id"] = *config.padding_idx;
  json["head_dim"] = config.head_width();
  json["hidden_act"] = "silu";
  json["rope_parameters"] = rope_parameters(config);
  if (config.rope_scaling.type != RopeType::kDefault) {
    json["rope_scaling"] = json["rope_parameters"];
  }
  return json;
}

bool may_be_left_by_decoder(std::string_view tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq");
}

}  // namespace fsdp
