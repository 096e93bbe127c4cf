#include "trainer/model/layers.h"
#include "trainer/model/node.h"

namespace fsdp {
namespace {

struct EmbeddingBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    at::Tensor& gradient = weight->gradient;
    if (!weight->gradient_written) gradient.zero_();
    gradient.index_add_(0, token_ids_N.unpack(), gradients[0]);
    weight->gradient_written = true;
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
