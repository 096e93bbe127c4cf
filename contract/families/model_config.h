#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "contract/text/fields.h"

namespace fsdp {

// The architectures that can be trained, as text of which a key may hold one (see families()).
Range known_architecture();

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
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;

  // Of one attention head.
  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }

  bool operator==(const ModelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
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
    visit("rms_norm_eps", self.rms_norm_eps, "Added to the mean square.", above_to(0, 1));
    visit("tie_word_embeddings", self.tie_word_embeddings,
          "Whether the head uses the embedding's weights.", any_value());
    visit("max_position_embeddings", self.max_position_embeddings, "Longest sequence.",
          from_to(1, 1e8));
    visit("initializer_range", self.initializer_range, "Standard deviation of random weights.",
          from_to(0, 1));
  }
};

}  // namespace fsdp
