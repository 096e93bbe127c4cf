#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/text/fields.h"

namespace fsdp {

// The range of model.config.architecture: the architectures that can be trained (see families()).
Range known_architecture();

// The documentation of model.config, with the names of all presets.
const char* model_config_documentation();

enum class FeedForward { kRelu, kGatedGelu };
constexpr auto enum_names(FeedForward) { return std::array{"relu"sv, "gated-gelu"sv}; }

enum class RopeType { kDefault, kLinear, kLlama3 };
constexpr auto enum_names(RopeType) { return std::array{"default"sv, "linear"sv, "llama3"sv}; }

// The stretching of the rotary embedding's frequencies, as in config.json's rope_scaling. The short
// form is its type: `rope_scaling: default`.
struct RopeScaling {
  static constexpr bool kHasShortForm = true;

  RopeType type = RopeType::kDefault;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("type", self.type,
          "default: none; linear: all frequencies / factor; llama3: those of long wavelengths.");
    visit("factor", self.factor, "What frequencies are divided by.", from_to(1, 1e6));
    visit(
        "low_freq_factor", self.low_freq_factor,
        "llama3: frequencies that turn less often than this in the original positions are divided.",
        above_to(0, 1e6));
    visit("high_freq_factor", self.high_freq_factor,
          "llama3: those that turn more often than this are not; between them, in part.",
          above_to(0, 1e6));
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          "llama3: the longest sequence before the stretching.", from_to(1, 1e8));
  }
};

// An architecture, in the names of Hugging Face's config.json.
struct ModelConfig {
  std::string architecture = "LlamaForCausalLM";
  int64_t num_hidden_layers = 6;
  int64_t hidden_size = 288;
  int64_t intermediate_size = 768;
  int64_t num_attention_heads = 6;
  int64_t num_key_value_heads = 6;
  std::optional<int64_t> head_dim{};
  int64_t vocab_size = 1024;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling{};
  double rms_norm_eps = 1e-5;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<int64_t> sliding_window{};
  bool tie_word_embeddings = false;
  std::optional<bool> scale_decoder_outputs{};
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  std::optional<int64_t> num_decoder_layers{};
  FeedForward feed_forward_proj = FeedForward::kRelu;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0;
  int64_t decoder_start_token_id = 0;
  int64_t pad_token_id = 0;
  std::optional<int64_t> padding_idx{};

  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }

  bool operator==(const ModelConfig&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("architecture", self.architecture, "The class of transformers that has the same weights.",
          known_architecture());
    visit("num_hidden_layers", self.num_hidden_layers, "Transformer blocks.", from_to(1, 1e5));
    visit("hidden_size", self.hidden_size, "Width of the residual stream.", from_to(1, 1e6));
    visit("intermediate_size", self.intermediate_size, "Width of the SwiGLU layer.",
          from_to(1, 1e7));
    visit("num_attention_heads", self.num_attention_heads, "Query heads; must divide hidden_size.",
          from_to(1, 1e6));
    visit("num_key_value_heads", self.num_key_value_heads,
          "Key and value heads; must divide num_attention_heads.", from_to(1, 1e6));
    visit("head_dim", self.head_dim,
          "Width of a head, an even number; absent: hidden_size / num_attention_heads.",
          from_to(2, 1e6));
    visit("vocab_size", self.vocab_size, "Tokens in the vocabulary.", from_to(2, 1e8));
    visit("rope_theta", self.rope_theta, "Base of the rotary embedding.", above_to(0, 1e15));
    visit("rope_scaling", self.rope_scaling, "How its frequencies are stretched.");
    visit("rms_norm_eps", self.rms_norm_eps, "Added to the mean square.", above_to(0, 1));
    visit("attention_bias", self.attention_bias,
          "Whether the projections of attention have biases.");
    visit("mlp_bias", self.mlp_bias, "Whether the projections of the SwiGLU layer have biases.");
    visit("sliding_window", self.sliding_window,
          "Tokens that a token attends to, itself and those before it; absent: all.",
          from_to(1, 1e8));
    visit("tie_word_embeddings", self.tie_word_embeddings,
          "Whether the head uses the embedding's weights.");
    visit("scale_decoder_outputs", self.scale_decoder_outputs,
          "T5: whether what the head reads is divided by the root of hidden_size; absent: as "
          "tie_word_embeddings.");
    visit("max_position_embeddings", self.max_position_embeddings, "Longest sequence.",
          from_to(1, 1e8));
    visit("initializer_range", self.initializer_range, "Standard deviation of random weights.",
          from_to(0, 1));
    visit("num_decoder_layers", self.num_decoder_layers,
          "T5: blocks of the decoder; absent: as many as num_hidden_layers.", from_to(1, 1e5));
    visit("feed_forward_proj", self.feed_forward_proj,
          "T5: what stands between the products of a block's last layer.");
    visit("relative_attention_num_buckets", self.relative_attention_num_buckets,
          "T5: kinds of distances between tokens that attention tells apart.", from_to(4, 1e6));
    visit("relative_attention_max_distance", self.relative_attention_max_distance,
          "T5: distances from here on are one kind.", from_to(2, 1e8));
    visit("dropout_rate", self.dropout_rate,
          "T5: which part of activations is dropped in training.", from_to_below(0, 1));
    visit("decoder_start_token_id", self.decoder_start_token_id,
          "T5: what the decoder reads first.", from_to(0, 1e8));
    visit("pad_token_id", self.pad_token_id, "T5: what fills the rows of a batch.",
          from_to(0, 1e8));
    visit("padding_idx", self.padding_idx,
          "Not T5: the token whose embedding gets no gradient when it is read (pad_token_id in "
          "config.json); absent: none.",
          from_to(0, 1e8));
  }
};

}  // namespace fsdp
