// T5 as T5ForConditionalGeneration. Modules and their parameters:
//
//   shared                    weight
//   encoder.block.<N>         relative_bias in block 0; attention_norm, query, key_value,
//                             attention_output; mlp_norm, wi, wo
//   encoder.final_layer_norm  weight
//   decoder.block.<N>         the same, and cross_norm, cross_query, cross_key_value, cross_output
//   lm_head                   norm; weight, unless embeddings are tied
//
// wi: one weight, or with a gate two stacked.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text/config_error.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Maps ModelConfig's names to T5Config's where they differ.
const std::map<std::string, std::string> kNames = {
    {"hidden_size", "d_model"},           {"head_dim", "d_kv"},
    {"intermediate_size", "d_ff"},        {"num_hidden_layers", "num_layers"},
    {"num_attention_heads", "num_heads"}, {"rms_norm_eps", "layer_norm_epsilon"},
};

// Files of transformers 5 repeat feed_forward_proj as is_gated_act and dense_act_fn, and
// transformers follows the latter.
void check_activation(const HuggingFaceConfig& file, const ModelConfig& config) {
  const bool is_gated = config.feed_forward_proj == FeedForward::kGatedGelu;
  file.require_value("is_gated_act", is_gated);
  file.require_value("dense_act_fn", is_gated ? "gelu_new" : "relu");
}

ModelConfig read_t5(const HuggingFaceConfig& file) {
  ModelConfig config{.architecture = "T5ForConditionalGeneration",
                     .head_dim = 64,  // T5Config's defaults
                     .rms_norm_eps = 1e-6,
                     .dropout_rate = 0.1};
  const HuggingFaceConfig renamed = file.renamed(kNames);
  renamed.require({"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                   "vocab_size"});
  renamed.read_keys(config);
  check_activation(file, config);
  // T5Config reads tie_word_embeddings as scale_decoder_outputs. The head is tied unless the
  // weights have one of their own (with_stored_head).
  if (!config.scale_decoder_outputs) {
    config.scale_decoder_outputs = file.find("tie_word_embeddings") != false;
  }
  config.tie_word_embeddings = true;
  return config;
}

ordered_json write_t5(const ModelConfig& config) {
  return {
      {"architectures", {config.architecture}},
      {"model_type", "t5"},
      {"is_encoder_decoder", true},
      {"d_model", config.hidden_size},
      {"d_kv", config.head_width()},
      {"d_ff", config.intermediate_size},
      {"num_layers", config.num_hidden_layers},
      {"num_decoder_layers", config.num_decoder_layers.value_or(config.num_hidden_layers)},
      {"num_heads", config.num_attention_heads},
      {"vocab_size", config.vocab_size},
      {"feed_forward_proj", name_of(config.feed_forward_proj)},
      {"relative_attention_num_buckets", config.relative_attention_num_buckets},
      {"relative_attention_max_distance", config.relative_attention_max_distance},
      {"dropout_rate", config.dropout_rate},
      {"layer_norm_epsilon", config.rms_norm_eps},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"scale_decoder_outputs", config.scale_decoder_outputs.value_or(config.tie_word_embeddings)},
      {"decoder_start_token_id", config.decoder_start_token_id},
      {"pad_token_id", config.pad_token_id}};
}

void check_t5(const ModelConfig& config) {
  if (!config.head_dim && config.hidden_size % config.num_attention_heads != 0) {
    throw ConfigError("", "num_attention_heads",
                      std::to_string(config.num_attention_heads) + " does not divide hidden_size " +
                          std::to_string(config.hidden_size) + "; give head_dim");
  }
  for (const auto& [key, id] : {std::pair{"decoder_start_token_id", config.decoder_start_token_id},
                                std::pair{"pad_token_id", config.pad_token_id}}) {
    if (id < config.vocab_size) continue;
    throw ConfigError("", key,
                      std::to_string(id) + " is not in the vocabulary; allowed: 0 to " +
                          std::to_string(config.vocab_size - 1));
  }
  if (config.relative_attention_max_distance <= config.relative_attention_num_buckets / 2) {
    throw ConfigError("", "relative_attention_max_distance",
                      std::to_string(config.relative_attention_max_distance) +
                          " is not above half of relative_attention_num_buckets " +
                          std::to_string(config.relative_attention_num_buckets));
  }
}

// The standard deviation of most random weights in T5PreTrainedModel, by a width.
double inverse_root(double size) { return 1 / std::sqrt(size); }

// `prefix` begins the parameters' names. `layer` is the layer's name in the checkpoint.
void add_attention(ModuleSpec& block, const ModelConfig& config, const std::string& prefix,
                   const std::string& layer, const std::string& attention) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.num_attention_heads * config.head_width();
  const auto width = static_cast<double>(hidden);
  const std::string name = layer + '.' + attention + '.';
  const std::string norm = prefix.empty() ? "attention_norm" : prefix + "norm";
  const std::string output = prefix.empty() ? "attention_output" : prefix + "output";
  block.parameters.push_back(norm_spec(norm, layer + ".layer_norm.weight", hidden));
  block.parameters.push_back(weight_spec(prefix + "query", {{name + "q.weight", {inner, hidden}}},
                                         inverse_root(width * config.head_width())));
  block.parameters.push_back(
      weight_spec(prefix + "key_value",
                  {{name + "k.weight", {inner, hidden}}, {name + "v.weight", {inner, hidden}}},
                  inverse_root(width)));
  block.parameters.push_back(
      weight_spec(output, {{name + "o.weight", {hidden, inner}}}, inverse_root(inner)));
}

void add_feed_forward(ModuleSpec& block, const ModelConfig& config, const std::string& layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const std::string name = layer + ".DenseReluDense.";
  const bool is_gated = config.feed_forward_proj == FeedForward::kGatedGelu;
  std::vector<NamedTensor> wi{{name + (is_gated ? "wi_0.weight" : "wi.weight"), {inner, hidden}}};
  if (is_gated) wi.push_back({name + "wi_1.weight", {inner, hidden}});
  block.parameters.push_back(norm_spec("mlp_norm", layer + ".layer_norm.weight", hidden));
  block.parameters.push_back(weight_spec("wi", std::move(wi), inverse_root(hidden)));
  ParameterSpec wo =
      weight_spec("wo", {{name + "wo.weight", {hidden, inner}}}, inverse_root(inner));
  wo.is_quantizable = false;  // as in transformers
  block.parameters.push_back(std::move(wo));
}

ModuleSpec t5_block(const ModelConfig& config, const std::string& stack, int64_t index) {
  const std::string name = stack + ".block." + std::to_string(index);
  const std::string layer = name + ".layer.";
  const bool is_decoder = stack == "decoder";
  ModuleSpec block{.name = name, .is_block = true};
  if (index == 0) {
    ParameterSpec bias =
        weight_spec("relative_bias",
                    {{layer + "0.SelfAttention.relative_attention_bias.weight",
                      {config.relative_attention_num_buckets, config.num_attention_heads}}},
                    inverse_root(config.hidden_size));
    bias.role = ParameterRole::kBias;
    block.parameters.push_back(std::move(bias));
  }
  add_attention(block, config, "", layer + "0", "SelfAttention");
  if (is_decoder) add_attention(block, config, "cross_", layer + "1", "EncDecAttention");
  add_feed_forward(block, config, layer + (is_decoder ? "2" : "1"));
  return block;
}

// Adds the blocks of a stack. The first has one parameter more than the others.
void add_blocks(std::vector<ModuleGroup>& groups, const ModelConfig& config,
                const std::string& stack, int64_t count) {
  groups.push_back({.module = [=](int64_t) { return t5_block(config, stack, 0); }});
  if (count == 1) return;
  groups.push_back({.count = count - 1,
                    .module = [=](int64_t index) { return t5_block(config, stack, index + 1); }});
}

ModuleSpec t5_head(const ModelConfig& config) {
  ModuleSpec module{
      .name = "lm_head",
      .parameters = {norm_spec("norm", "decoder.final_layer_norm.weight", config.hidden_size)}};
  if (!config.tie_word_embeddings) {
    module.parameters.push_back(
        weight_spec("weight", {{"lm_head.weight", {config.vocab_size, config.hidden_size}}}, 1));
  }
  return module;
}

std::vector<ModuleGroup> t5_modules(const ModelConfig& config) {
  std::vector<ModuleGroup> groups{{.module = [=](int64_t) {
    return ModuleSpec{
        .name = "shared",
        .parameters = {weight_spec(
            "weight", {{"shared.weight", {config.vocab_size, config.hidden_size}}}, 1)}};
  }}};
  add_blocks(groups, config, "encoder", config.num_hidden_layers);
  groups.push_back({.module = [=](int64_t) {
    return ModuleSpec{
        .name = "encoder.final_layer_norm",
        .parameters = {norm_spec("weight", "encoder.final_layer_norm.weight", config.hidden_size)}};
  }});
  add_blocks(groups, config, "decoder",
             config.num_decoder_layers.value_or(config.num_hidden_layers));
  groups.push_back({.module = [=](int64_t) { return t5_head(config); }});
  return groups;
}

// True for a table that early checkpoints have and nothing reads.
bool may_be_left_by_t5(std::string_view tensor) {
  return tensor.ends_with(".EncDecAttention.relative_attention_bias.weight");
}

ModelConfig sized(int64_t layers, int64_t hidden, int64_t intermediate, int64_t heads,
                  int64_t head_width, FeedForward feed_forward) {
  const bool is_version_1 = feed_forward == FeedForward::kRelu;
  return {.architecture = "T5ForConditionalGeneration",
          .num_hidden_layers = layers,
          .hidden_size = hidden,
          .intermediate_size = intermediate,
          .num_attention_heads = heads,
          .head_dim = head_width,
          .vocab_size = 32128,
          .rms_norm_eps = 1e-6,
          .tie_word_embeddings = is_version_1,
          .feed_forward_proj = feed_forward,
          .dropout_rate = 0.1};
}

std::vector<Preset> t5_presets() {
  constexpr FeedForward kPlain = FeedForward::kRelu;
  constexpr FeedForward kGated = FeedForward::kGatedGelu;
  return {{"t5-small", sized(6, 512, 2048, 8, 64, kPlain)},
          {"t5-base", sized(12, 768, 3072, 12, 64, kPlain)},
          {"t5-large", sized(24, 1024, 4096, 16, 64, kPlain)},
          {"t5-3b", sized(24, 1024, 16384, 32, 128, kPlain)},
          {"t5-11b", sized(24, 1024, 65536, 128, 128, kPlain)},
          {"t5-v1.1-base", sized(12, 768, 2048, 12, 64, kGated)},
          {"t5-v1.1-large", sized(24, 1024, 2816, 16, 64, kGated)},
          {"t5-v1.1-xl", sized(24, 2048, 5120, 32, 64, kGated)}};
}

}  // namespace

ModelFamily t5_family() {
  return {.architecture = "T5ForConditionalGeneration",
          .model_type = "t5",
          .structure = ModelStructure::kEncoderDecoder,
          .own_keys = {"num_decoder_layers", "feed_forward_proj", "relative_attention_num_buckets",
                       "relative_attention_max_distance", "dropout_rate", "decoder_start_token_id",
                       "pad_token_id", "scale_decoder_outputs"},
          .read_config = read_t5,
          .write_config = write_t5,
          .check = check_t5,
          .modules = t5_modules,
          .may_be_left = may_be_left_by_t5,
          .embedding_copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
          .presets = t5_presets()};
}

}  // namespace fsdp
