// The decoder-only families, which all have rotary embeddings. Modules and their parameters:
//
//   model.embed_tokens      weight
//   model.layers.<N>        attention_norm, query_key_value, query_norm and key_norm of Qwen3,
//                           attention_output, mlp_norm, gate_up, down
//   lm_head                 norm; weight, unless embeddings are tied
//
// A bias follows its weight.
#include <nlohmann/json.hpp>

#include "base/text/config_error.h"
#include "base/text/numbers.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMistral = "MistralForCausalLM";
constexpr const char* kQwen2 = "Qwen2ForCausalLM";
constexpr const char* kQwen3 = "Qwen3ForCausalLM";

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

void check_decoder(const ModelConfig& config) {
  check_heads(config);
  check_padding(config);
  check_rope(config.rope_scaling);
}

// The bias of a weight. A tensor <stem>.weight [O, D] gets the tensor <stem>.bias [O].
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

ModuleSpec block_module(const ModelConfig& config, int64_t layer) {
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
      config.attention_bias || config.architecture == kQwen2);
  if (config.architecture == kQwen3) {
    add(norm_spec("query_norm", attention + "q_norm.weight", width));
    add(norm_spec("key_norm", attention + "k_norm.weight", width));
  }
  add(weight_spec("attention_output", {{attention + "o_proj.weight", {hidden, query}}}, deviation),
      config.attention_bias);
  add(norm_spec("mlp_norm", name + ".post_attention_layernorm.weight", hidden));
  add(weight_spec(
          "gate_up",
          {{mlp + "gate_proj.weight", {inner, hidden}}, {mlp + "up_proj.weight", {inner, hidden}}},
          deviation),
      config.mlp_bias);
  add(weight_spec("down", {{mlp + "down_proj.weight", {hidden, inner}}}, deviation),
      config.mlp_bias);
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

std::vector<ModuleGroup> decoder_modules(const ModelConfig& config) {
  return {{.module = [config](int64_t) { return embedding_module(config); }},
          {.count = config.num_hidden_layers,
           .module = [config](int64_t layer) { return block_module(config, layer); }},
          {.module = [config](int64_t) { return head_module(config); }}};
}

// Returns rope_parameters, which transformers 5 reads. Version 4 reads the key rope_theta, and the
// rest from rope_scaling.
ordered_json rope_parameters(const ModelConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  ordered_json object = {{"rope_type", name_of(rope.type)}, {"rope_theta", config.rope_theta}};
  if (rope.type != RopeType::kDefault) object["factor"] = rope.factor;
  if (rope.type == RopeType::kLlama3) {
    object["low_freq_factor"] = rope.low_freq_factor;
    object["high_freq_factor"] = rope.high_freq_factor;
    object["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  return object;
}

// Writes the keys that all these families have in config.json, for versions 4 and 5 of
// transformers.
ordered_json decoder_config(const ModelConfig& config) {
  ordered_json object;
  const ModelFamily& family = family_of(config);
  object["architectures"] = ordered_json::array({config.architecture});
  object["model_type"] = family.model_type;
  ModelConfig::visit_fields(config, [&]<typename T>(const char* name, const T& member, auto&&...) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (takes_key(family, name)) object[name] = member;
    }
  });
  if (config.padding_idx) object["pad_token_id"] = *config.padding_idx;
  object["head_dim"] = config.head_width();
  object["hidden_act"] = "silu";
  object["rope_parameters"] = rope_parameters(config);
  if (config.rope_scaling.type != RopeType::kDefault) {
    object["rope_scaling"] = object["rope_parameters"];
  }
  return object;
}

// torch.nn.Embedding counts a negative padding_idx from the end of the vocabulary.
HuggingFaceConfig with_padding_from_start(const HuggingFaceConfig& file) {
  const json padding = file.find("padding_idx");
  const json size = file.find("vocab_size");
  const bool is_counted = padding.is_number_integer() && padding < 0 && size.is_number_integer() &&
                          size > 0 && size <= 100'000'000;
  if (!is_counted) return file;
  return file.with("padding_idx", padding.get<int64_t>() + size.get<int64_t>());
}

// Reads the keys that all these families have in config.json. `config` has the family's own
// defaults.
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

// True for the rotary embedding's constants, which older checkpoints hold.
bool may_be_left_by_decoder(std::string_view tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq");
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

// Returns a family. Its own keys are `keys` and those that all families here share.
ModelFamily decoder_family(std::string_view architecture, std::string_view model_type,
                           std::vector<std::string_view> keys) {
  keys.insert(keys.end(), {"initializer_range", "max_position_embeddings", "num_key_value_heads",
                           "padding_idx", "rope_scaling", "rope_theta"});
  return {.architecture = architecture,
          .model_type = model_type,
          .structure = ModelStructure::kDecoder,
          .own_keys = std::move(keys),
          .read_config = nullptr,
          .write_config = decoder_config,
          .check = check_decoder,
          .modules = decoder_modules,
          .may_be_left = may_be_left_by_decoder};
}

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

ModelConfig read_mistral(const HuggingFaceConfig& file) {
  ModelConfig config = read_decoder_config(  // MistralConfig's defaults
      file, {.architecture = kMistral,
             .num_key_value_heads = 8,
             .rms_norm_eps = 1e-6,
             .max_position_embeddings = 131072});
  if (!file.has("sliding_window")) config.sliding_window = 4096;
  // For a file with layer_types, AutoModel uses another class, with windows in some layers only.
  file.require_value("layer_types", nullptr);
  return config;
}

ordered_json write_mistral(const ModelConfig& config) {
  ordered_json object = decoder_config(config);
  object["sliding_window"] = nullptr;  // absent would be MistralConfig's default
  if (config.sliding_window) object["sliding_window"] = *config.sliding_window;
  return object;
}

std::vector<Preset> mistral_presets() {
  ModelConfig v1{.architecture = kMistral,
                 .vocab_size = 32000,
                 .sliding_window = 4096,
                 .max_position_embeddings = 32768};
  ModelConfig v3{.architecture = kMistral,
                 .vocab_size = 32768,
                 .rope_theta = 1e6,
                 .max_position_embeddings = 32768};
  return {{"mistral-7b-v0.1", sized(32, 4096, 14336, 32, 8, v1)},
          {"mistral-7b", sized(32, 4096, 14336, 32, 8, v3)}};
}

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

ordered_json write_qwen(const ModelConfig& config) {
  ordered_json object = decoder_config(config);
  object["use_sliding_window"] = false;
  return object;
}

std::vector<Preset> qwen2_presets() {
  const ModelConfig small{.architecture = kQwen2,
                          .vocab_size = 151936,
                          .rope_theta = 1e6,
                          .rms_norm_eps = 1e-6,
                          .tie_word_embeddings = true,
                          .max_position_embeddings = 32768};
  ModelConfig large = small;
  large.vocab_size = 152064;
  large.tie_word_embeddings = false;
  large.max_position_embeddings = 131072;
  return {{"qwen2.5-0.5b", sized(24, 896, 4864, 14, 2, small)},
          {"qwen2.5-7b", sized(28, 3584, 18944, 28, 4, large)}};
}

std::vector<Preset> qwen3_presets() {
  const ModelConfig small{.architecture = kQwen3,
                          .head_dim = 128,
                          .vocab_size = 151936,
                          .rope_theta = 1e6,
                          .rms_norm_eps = 1e-6,
                          .tie_word_embeddings = true,
                          .max_position_embeddings = 40960};
  ModelConfig large = small;
  large.tie_word_embeddings = false;
  return {{"qwen3-0.6b", sized(28, 1024, 3072, 16, 8, small)},
          {"qwen3-8b", sized(36, 4096, 12288, 32, 8, large)}};
}

}  // namespace

ModelFamily llama_family() {
  ModelFamily family = decoder_family("LlamaForCausalLM", "llama", {"attention_bias", "mlp_bias"});
  family.read_config = read_llama;
  family.check = check_llama;
  family.presets = llama_presets();
  return family;
}

ModelFamily mistral_family() {
  ModelFamily family = decoder_family(kMistral, "mistral", {"sliding_window"});
  family.read_config = read_mistral;
  family.write_config = write_mistral;
  family.presets = mistral_presets();
  return family;
}

ModelFamily qwen2_family() {
  ModelFamily family = decoder_family(kQwen2, "qwen2", {});
  family.read_config = [](const HuggingFaceConfig& file) {
    return read_qwen(file, {.architecture = kQwen2,  // Qwen2Config's defaults
                            .num_key_value_heads = 32,
                            .rms_norm_eps = 1e-6,
                            .max_position_embeddings = 32768});
  };
  family.write_config = write_qwen;
  family.presets = qwen2_presets();
  return family;
}

ModelFamily qwen3_family() {
  ModelFamily family = decoder_family(kQwen3, "qwen3", {"attention_bias"});
  family.read_config = [](const HuggingFaceConfig& file) {
    return read_qwen(file, {.architecture = kQwen3,  // Qwen3Config's defaults
                            .num_key_value_heads = 32,
                            .head_dim = 128,
                            .rms_norm_eps = 1e-6,
                            .max_position_embeddings = 32768});
  };
  family.write_config = write_qwen;
  family.presets = qwen3_presets();
  return family;
}

}  // namespace fsdp
