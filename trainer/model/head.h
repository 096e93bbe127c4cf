#pragma once

#include "trainer/model/model.h"

namespace fsdp {

// Logits and cross-entropy in one, a chunk of tokens at a time, so that the logits of a whole batch
// never exist: the sum over unmasked labels of -log softmax(h weight^T)[label], times loss_scale;
// 0-dimensional, fp32, as is everything between the logits and it, whatever the type of h.
//
// h_ND [N, D], labels_N int64 [N] (kNoLabel: masked), weight_VD [vocabulary, D]. When gradients are
// wanted, forward itself writes the weight's gradient, for a loss gradient of 1 and times
// gradient_scale, and keeps the gradient of h, which is all that is saved. `chunk_tokens` 0 takes
// what Kernels::chunk_tokens_max allows.
struct CrossEntropyOptions {
  double loss_scale = 1.0;
  double gradient_scale = 1.0;
  int64_t chunk_tokens = 0;
};
at::Tensor linear_cross_entropy(Pass& pass, const Activation& h_ND, const at::Tensor& labels_N,
                                const ParameterPtr& weight_VD, const CrossEntropyOptions& options);

// Without gradients: [2] fp32, the same loss, and the number of unmasked labels that have the
// largest logit.
at::Tensor evaluate_cross_entropy(Pass& pass, const at::Tensor& h_ND, const at::Tensor& labels_N,
                                  const ParameterPtr& weight_VD,
                                  const CrossEntropyOptions& options);

// The loss of a batch's labels as the last module writes it (see Module::forward): one of the two
// above.
at::Tensor loss_of(Pass& pass, const Activation& h_ND, const ParameterPtr& weight_VD);

}  // namespace fsdp
