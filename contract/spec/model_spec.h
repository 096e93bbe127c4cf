#pragma once

#include <cstdint>
#include <filesystem>

#include "contract/text/fields.h"

// What a run trains.
namespace fsdp {

// A LLaMA architecture, in the names of Hugging Face's config.json.
struct ModelConfig {
  int64_t num_hidden_layers = 6;
  int64_t hidden_size = 288;
  int64_t intermediate_size = 768;
  int64_t num_attention_heads = 6;
  int64_t num_key_value_heads = 6;
  int64_t vocab_size = 1024;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  int64_t max_position_embeddings = 2048;

  bool operator==(const ModelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("num_hidden_layers", self.num_hidden_layers, "Transformer blocks.", from_to(1, 1e5));
    visit("hidden_size", self.hidden_size, "Width of the residual stream.", from_to(1, 1e6));
    visit("intermediate_size", self.intermediate_size, "Width of the SwiGLU layer.",
          from_to(1, 1e7));
    visit("num_attention_heads", self.num_attention_heads,
          "Query heads; must divide hidden_size into an even head width.", from_to(1, 1e6));
    visit("num_key_value_heads", self.num_key_value_heads,
          "Key and value heads; must divide num_attention_heads.", from_to(1, 1e6));
    visit("vocab_size", self.vocab_size, "Tokens in the vocabulary.", from_to(2, 1e8));
    visit("rope_theta", self.rope_theta, "Base of the rotary embedding.", above_to(0, 1e15));
    visit("rms_norm_eps", self.rms_norm_eps, "Added to the mean square.", above_to(0, 1));
    visit("tie_word_embeddings", self.tie_word_embeddings,
          "Whether the head uses the embedding's weights.", any_value());
    visit("max_position_embeddings", self.max_position_embeddings, "Longest sequence.",
          from_to(1, 1e8));
  }
};

// Within the ranges above no sum of sizes overflows.
int64_t parameter_count(const ModelConfig& config);

// The most parameters that a model may have.
inline constexpr int64_t kMostParameters = 1'000'000'000'000'000;

struct ModelSpec {
  std::filesystem::path source;
  ModelConfig config;

  bool operator==(const ModelSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("source", self.source,
          "Hugging Face folder (config.json and safetensors); excludes config.", any_value());
    visit("config", self.config, "Architecture of a model with random weights from train.seed.",
          any_value());
  }
};

}  // namespace fsdp
