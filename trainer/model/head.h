#pragma once

#include "trainer/model/model.h"

namespace fsdp {

// Computes logits and cross-entropy together, one chunk of tokens at a time, so the logits of a
// whole batch never exist. Returns the sum over unmasked labels of -log softmax(h weight^T)[label],
// times loss_scale. The sum is 0-dimensional and fp32, like everything between it and the logits,
// whatever the type of h.
//
// h_ND is [N, D], labels_N int64 [N] (kNoLabel: masked), and weight_VD [vocabulary, D]. If
// gradients are wanted, the forward itself writes the weight's gradient, for a loss gradient of 1
// and times gradient_scale. It saves only the gradient of h. `chunk_tokens` 0 stands for
// Kernels::chunk_tokens_max.
struct CrossEntropyOptions {
  double loss_scale = 1.0;
  double gradient_scale = 1.0;
  int64_t chunk_tokens = 0;
};
at::Tensor linear_cross_entropy(Pass& pass, const Activation& h_ND, const at::Tensor& labels_N,
                                const ParameterPtr& weight_VD, const CrossEntropyOptions& options);

// Computes no gradients. Returns [2], fp32: the same loss, and the number of unmasked labels that
// have the largest logit.
at::Tensor evaluate_cross_entropy(Pass& pass, const at::Tensor& h_ND, const at::Tensor& labels_N,
                                  const ParameterPtr& weight_VD,
                                  const CrossEntropyOptions& options);

// Returns the loss of a batch's labels as the last module writes it (see Module::forward), by one
// of the two functions above.
at::Tensor loss_of(Pass& pass, const Activation& h_ND, const ParameterPtr& weight_VD);

}  // namespace fsdp
