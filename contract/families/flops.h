#pragma once

#include <cstdint>
#include <vector>

#include "contract/families/adapters.h"
#include "contract/families/model_config.h"

// Floating point operations of training, counted as in appendix B of PaLM (Chowdhery et al. 2022).
// A multiplication and an addition of a matrix product count as two. Norms, activations, softmax,
// embedding look-ups and the optimizer do not count. All weights of linear layers count, including
// the head's. Attention has two products per layer. Causal attention counts half of the pairs of
// tokens, where PaLM counts all. With a sliding window, it counts the pairs within the window.
// Attention among an encoder's tokens, or from a decoder to them, counts all pairs. A backward
// counts as two forwards. For a frozen weight it counts as one, because its gradient is not
// computed. The gradients of inputs all count, also those below the first adapter, which are not
// computed.
namespace fsdp {

// The size of one micro-batch. Padding counts, too.
struct BatchShape {
  int64_t rows = 1;
  int64_t tokens = 1;          // of a row; with an encoder, those that it reads
  int64_t decoder_tokens = 0;  // of a row, with an encoder
  // Lengths of the documents of all rows. Attention stays within a document. Empty: each row is one
  // document.
  std::vector<int64_t> document_tokens{};
};

// The operations of one block's forward.
struct BlockFlops {
  double attention = 0;  // of queries, keys and values, and the two products of attention
  double mlp = 0;        // of the MLP's first layer
  double outputs = 0;    // of the layers that write to the residual stream
  double frozen = 0;     // the part of these that multiplies frozen weights
  double last = 0;       // the part of these that only makes the block's output

  double total() const { return attention + mlp + outputs; }
};

// The operations of a forward. The embedding needs none.
struct ForwardFlops {
  int64_t blocks = 0;
  BlockFlops block{};          // of each; with an encoder, of its blocks
  int64_t decoder_blocks = 0;  // beside an encoder
  BlockFlops decoder_block{};  // of each
  double head = 0;
  bool is_head_frozen = false;

  double total() const;
  double frozen() const;
};

// `config` has been checked (check_model_config).
ForwardFlops forward_flops(const ModelConfig& config, const BatchShape& shape,
                           Method method = Method::kFull, const LoraSpec& lora = {});

// Forward and backward.
double model_flops(const ForwardFlops& forward);

}  // namespace fsdp
