#pragma once

#include <cstdint>
#include <vector>

#include "contract/families/model_config.h"

// Floating point operations of training, counted as in appendix B of PaLM (Chowdhery et al. 2022):
// two for each multiplication and addition of a matrix product, and nothing for what is no product
// of matrices: norms, activations, softmax, the look-up of embeddings, the optimizer. Every weight
// of a linear layer counts, the head's too. Of attention the two products of each layer count:
// causal ones once, as half of the pairs of tokens where PaLM counts all, within a sliding window
// where there is one; those of an encoder's tokens, or with them, as all pairs. A backward is two
// forwards.
namespace fsdp {

// What one micro-batch gives the model to compute. Tokens that fill rows up count as others do.
struct BatchShape {
  int64_t rows = 1;
  int64_t tokens = 1;          // of a row; with an encoder those that it reads
  int64_t decoder_tokens = 0;  // of a row, with an encoder
  // Lengths of the documents of all rows, within which attention stays; empty: of whole rows.
  std::vector<int64_t> document_tokens{};
};

// Of one block's forward.
struct BlockFlops {
  double attention = 0;  // of queries, keys and values, and the two products of attention
  double mlp = 0;        // of the MLP's first layer
  double outputs = 0;    // of the layers that write to the residual stream

  double total() const { return attention + mlp + outputs; }
};

// Of a forward. The embedding multiplies nothing.
struct ForwardFlops {
  int64_t blocks = 0;
  BlockFlops block{};  // each; with an encoder its blocks
  int64_t decoder_blocks = 0;
  BlockFlops decoder_block{};  // each; with an encoder
  double head = 0;

  double total() const;
};

// `config` has been checked (check_model_config).
ForwardFlops forward_flops(const ModelConfig& config, const BatchShape& shape);

// Forward and backward.
double model_flops(const ForwardFlops& forward);

}  // namespace fsdp
