#include "trainer/model/layers.h"
#include "trainer/model/node.h"
#include "trainer/model/product.h"

namespace fsdp {
namespace {

struct ResidualLinearBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    const at::Tensor& dy_NO = gradients[0];
    const at::Tensor x_ND = this->x_ND.unpack();
    write_product_gradient(*weight_OD, dy_NO.t(), x_ND);
    at::Tensor dx_ND = at::empty_like(x_ND);
    multiply_into(dx_ND, dy_NO, weight_OD->value);
    return {dy_NO, dx_ND};
  }
  void release_variables() override { x_ND.reset_data(); }

  SavedVariable x_ND;
  ParameterPtr weight_OD;
};

}  // namespace

at::Tensor residual_linear(const at::Tensor& residual_NO, const at::Tensor& x_ND,
                           const ParameterPtr& weight_OD) {
  at::Tensor y_NO;
  {
    const ComputeGuard guard;
    y_NO = residual_NO.clone();
    multiply_into(y_NO, x_ND, weight_OD->value.t(), /*accumulate=*/true);
  }
  if (auto node = node_for<ResidualLinearBackward>({residual_NO, x_ND})) {
    node->x_ND = SavedVariable(x_ND, false);
    node->weight_OD = weight_OD;
    torch::autograd::set_history(y_NO, node);
  }
  return y_NO;
}

}  // namespace fsdp
