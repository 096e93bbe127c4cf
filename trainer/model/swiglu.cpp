#include "trainer/model/layers.h"
#include "trainer/model/node.h"
#include "trainer/model/product.h"

namespace fsdp {
namespace {

struct ResidualSwigluLinearBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    const at::Tensor& dy_ND = gradients[0];
    const at::Tensor gate_up_N2F = this->gate_up_N2F.unpack();
    const int64_t width = gate_up_N2F.size(1) / 2;
    const at::Tensor gate_NF = gate_up_N2F.narrow(1, 0, width);
    const at::Tensor up_NF = gate_up_N2F.narrow(1, width, width);
    at::Tensor d_gate_up_N2F = at::empty_like(gate_up_N2F);
    at::Tensor d_gate_NF = d_gate_up_N2F.narrow(1, 0, width);
    at::Tensor d_up_NF = d_gate_up_N2F.narrow(1, width, width);

    at::Tensor dh_NF = at::empty({dy_ND.size(0), width}, dy_ND.options());
    multiply_into(dh_NF, dy_ND, weight_DF->value);
    at::Tensor h_NF = at::empty_like(dh_NF);
    at::silu_out(h_NF, gate_NF);
    at::mul_out(d_up_NF, dh_NF, h_NF);
    h_NF.mul_(up_NF);
    write_product_gradient(*weight_DF, dy_ND.t(), h_NF);
    dh_NF.mul_(up_NF);
    at::silu_backward_out(d_gate_NF, dh_NF, gate_NF);
    return {dy_ND, d_gate_up_N2F};
  }
  void release_variables() override { gate_up_N2F.reset_data(); }

  SavedVariable gate_up_N2F;
  ParameterPtr weight_DF;
};

}  // namespace

at::Tensor residual_swiglu_linear(const at::Tensor& residual_ND, const at::Tensor& gate_up_N2F,
                                  const ParameterPtr& weight_DF) {
  at::Tensor y_ND;
  {
    const ComputeGuard guard;
    const int64_t width = gate_up_N2F.size(1) / 2;
    at::Tensor h_NF = at::empty({gate_up_N2F.size(0), width}, gate_up_N2F.options());
    at::silu_out(h_NF, gate_up_N2F.narrow(1, 0, width));
    h_NF.mul_(gate_up_N2F.narrow(1, width, width));
    y_ND = residual_ND.clone();
    multiply_into(y_ND, h_NF, weight_DF->value.t(), /*accumulate=*/true);
  }
  if (auto node = node_for<ResidualSwigluLinearBackward>({residual_ND, gate_up_N2F})) {
    node->gate_up_N2F = SavedVariable(gate_up_N2F, false);
    node->weight_DF = weight_DF;
    torch::autograd::set_history(y_ND, node);
  }
  return y_ND;
}

}  // namespace fsdp
