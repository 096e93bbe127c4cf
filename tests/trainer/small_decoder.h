#pragma once

#include "contract/families/model_config.h"

namespace fsdp {

// A LLaMA that a step takes milliseconds for.
inline ModelConfig small_decoder(int64_t layers, int64_t vocabulary) {
  return {.num_hidden_layers = layers,
          .hidden_size = 64,
          .intermediate_size = 96,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .vocab_size = vocabulary,
          .max_position_embeddings = 32};
}

// One that takes still less, with as many heads of keys as of queries.
inline ModelConfig tiny_decoder(int64_t layers = 4) {
  return {.num_hidden_layers = layers,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_attention_heads = 2,
          .num_key_value_heads = 2,
          .vocab_size = 31,
          .max_position_embeddings = 16};
}

}  // namespace fsdp
