#include "trainer/model/layers.h"
#include "trainer/model/node.h"
#include "trainer/model/product.h"

namespace fsdp {
namespace {

struct EmbeddingBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    const at::Tensor token_ids = token_ids_N.unpack();
    if (weight->gradient.is_cuda()) {
      // It sorts and sums in fp32; adding into place would be atomic: rounded to bf16 each time,
      // and in no fixed order.
      write_gradient(*weight,
                     at::embedding_dense_backward(gradients[0], token_ids, weight->gradient.size(0),
                                                  /*padding_idx=*/-1,
                                                  /*scale_grad_by_freq=*/false));
    } else {
      if (!weight->gradient_written) weight->gradient.zero_();
      weight->gradient.index_add_(0, token_ids, gradients[0]);
      weight->gradient_written = true;
    }
    return {at::zeros_like(anchor.unpack())};
  }
  void release_variables() override {
    anchor.reset_data();
    token_ids_N.reset_data();
  }

  SavedVariable anchor;
  SavedVariable token_ids_N;
  ParameterPtr weight;
};

}  // namespace

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& token_ids_N,
                     const ParameterPtr& weight) {
  at::Tensor y_ND;
  {
    const ComputeGuard guard;
    y_ND = at::index(weight->value, {token_ids_N});
  }
  if (auto node = node_for<EmbeddingBackward>({anchor})) {
    node->anchor = SavedVariable(anchor, false);
    node->token_ids_N = SavedVariable(token_ids_N, false);
    node->weight = weight;
    torch::autograd::set_history(y_ND, node);
  }
  return y_ND;
}

}  // namespace fsdp
