#include "contract/families/flops.h"

#include <catch2/catch.hpp>

#include "contract/families/family.h"
#include "contract/spec/run_spec.h"

namespace fsdp {
namespace {

// Returns the number of pairs of tokens that attention counts, from the operations of a model with
// one head of width 2.
double attention_pairs(std::optional<int64_t> window, const BatchShape& shape) {
  const ModelConfig config{.architecture = "MistralForCausalLM",
                           .num_hidden_layers = 1,
                           .hidden_size = 2,
                           .intermediate_size = 1,
                           .num_attention_heads = 1,
                           .num_key_value_heads = 1,
                           .vocab_size = 2,
                           .sliding_window = window};
  const double linear = 2.0 * 3 * 2 * 2 * static_cast<double>(shape.rows * shape.tokens);
  return (forward_flops(config, shape).block.attention - linear) / (4 * 2);
}

int64_t pairs_one_by_one(int64_t tokens, int64_t window) {
  int64_t pairs = 0;
  for (int64_t query = 0; query < tokens; ++query) {
    for (int64_t key = 0; key <= query; ++key) pairs += query - key < window ? 1 : 0;
  }
  return pairs;
}

TEST_CASE("a token of a 7B LLaMA takes six operations a parameter, and attention's") {
  const ModelConfig config = find_preset("llama-7b")->config;
  const ForwardFlops forward = forward_flops(config, {.rows = 3, .tokens = 2048});
  const double tokens = 3 * 2048;
  const double embedding = 32000.0 * 4096;
  const double norms = (2 * 32 + 1) * 4096.0;
  const double attention = 32 * 4 * (2048.0 / 2) * 4096;  // forward operations of a token
  CHECK(model_flops(forward) ==
        tokens * (6 * (parameter_count(config) - embedding - norms) + 3 * attention));
  CHECK(forward.blocks == 32);
  CHECK(forward.head == tokens * 2 * embedding);
  CHECK(forward.total() == 32 * forward.block.total() + forward.head);
  const double down = tokens * 2 * 4096 * 11008;
  CHECK(hardware_flops(forward, {.every = 1}) ==
        model_flops(forward) + 32 * (forward.block.total() - down));
}

TEST_CASE("causal attention counts half of all pairs, in its window and its documents alone") {
  for (const int64_t tokens : {1, 7, 64}) {
    for (const int64_t window : {1, 5, 64, 100}) {
      const double pairs = attention_pairs(window, {.rows = 3, .tokens = tokens});
      // A token's pair with itself counts half, for the first `window` tokens.
      const double half_of_diagonal = static_cast<double>(std::min(tokens, window)) / 2;
      CHECK(pairs ==
            3 * (static_cast<double>(pairs_one_by_one(tokens, window)) - half_of_diagonal));
    }
  }
  CHECK(attention_pairs({}, {.rows = 2, .tokens = 8}) == 2 * 8 * 8 / 2);
  const BatchShape packed{.rows = 2, .tokens = 8, .document_tokens = {5, 3, 8}};
  CHECK(attention_pairs({}, packed) == (25 + 9 + 64) / 2.0);
  CHECK(attention_pairs(4, packed) == (5 * 4 - 8) + 4.5 + (8 * 4 - 8));
}

}  // namespace
}  // namespace fsdp
