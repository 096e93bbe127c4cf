#include "trainer/model/layers.h"
#include "trainer/model/node.h"
#include "trainer/model/product.h"

namespace fsdp {
namespace {

// Reduced types are normalised in fp32, like Hugging Face's LlamaRMSNorm.
at::ScalarType compute_type(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

// 1 / root mean square of each row, [N, 1].
at::Tensor reciprocal_rms(const at::Tensor& x_ND, double epsilon) {
  at::Tensor norm_N1 =
      at::linalg_vector_norm(x_ND, 2, at::IntArrayRef{-1}, /*keepdim=*/true, compute_type(x_ND));
  return norm_N1.square_().div_(x_ND.size(1)).add_(epsilon).rsqrt_();
}

at::Tensor normalised(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1) {
  at::Tensor normalised_ND = at::empty_like(x_ND);
  at::mul_out(normalised_ND, x_ND, reciprocal_rms_N1);
  return normalised_ND;
}

// Gradient of x, written over dy where types allow; writes the weight's gradient.
at::Tensor rms_norm_backward(at::Tensor dy_ND, at::Tensor normalised_ND,
                             const at::Tensor& reciprocal_rms_N1, Parameter& weight_D) {
  const at::ScalarType type = dy_ND.scalar_type();
  const at::ScalarType compute = reciprocal_rms_N1.scalar_type();
  dy_ND = dy_ND.to(compute);
  normalised_ND = normalised_ND.to(compute);
  const at::Tensor weight = weight_D.value.to(compute);

  at::Tensor product_ND = dy_ND * normalised_ND;
  write_gradient(weight_D, product_ND.sum(0));
  const at::Tensor mean_N1 = product_ND.mv(weight).div_(dy_ND.size(1)).unsqueeze_(1);
  product_ND.reset();

  dy_ND.mul_(weight).addcmul_(normalised_ND, mean_N1, -1).mul_(reciprocal_rms_N1);
  return dy_ND.to(type);
}

struct RmsNormBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    return {rms_norm_backward(gradients[0].clone(), normalised(x_ND.unpack(), reciprocal_rms_N1),
                              reciprocal_rms_N1, *weight_D)};
  }
  void release_variables() override {
    x_ND.reset_data();
    reciprocal_rms_N1.reset();
  }

  SavedVariable x_ND;
  at::Tensor reciprocal_rms_N1;
  ParameterPtr weight_D;
};

struct RmsNormLinearBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    at::Tensor dy_NO = std::move(gradients[0]);
    const at::Tensor normalised_ND = normalised(x_ND.unpack(), reciprocal_rms_N1);
    at::Tensor buffer_ND = normalised_ND * norm_weight_D->value;
    write_product_gradient(*weight_OD, dy_NO.t(), buffer_ND);
    multiply_into(buffer_ND, dy_NO, weight_OD->value);
    dy_NO.reset();
    return {rms_norm_backward(buffer_ND, normalised_ND, reciprocal_rms_N1, *norm_weight_D)};
  }
  void release_variables() override {
    x_ND.reset_data();
    reciprocal_rms_N1.reset();
  }

  SavedVariable x_ND;
  at::Tensor reciprocal_rms_N1;
  ParameterPtr norm_weight_D;
  ParameterPtr weight_OD;
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_ND, const ParameterPtr& weight_D, double epsilon) {
  at::Tensor y_ND;
  at::Tensor reciprocal_rms_N1;
  {
    const ComputeGuard guard;
    reciprocal_rms_N1 = reciprocal_rms(x_ND, epsilon);
    y_ND = normalised(x_ND, reciprocal_rms_N1).mul_(weight_D->value);
  }
  if (auto node = node_for<RmsNormBackward>({x_ND})) {
    node->x_ND = SavedVariable(x_ND, false);
    node->reciprocal_rms_N1 = reciprocal_rms_N1;
    node->weight_D = weight_D;
    torch::autograd::set_history(y_ND, node);
  }
  return y_ND;
}

at::Tensor rms_norm_linear(const at::Tensor& x_ND, const ParameterPtr& norm_weight_D,
                           double epsilon, const ParameterPtr& weight_OD) {
  at::Tensor y_NO;
  at::Tensor reciprocal_rms_N1;
  {
    const ComputeGuard guard;
    reciprocal_rms_N1 = reciprocal_rms(x_ND, epsilon);
    const at::Tensor norm_ND = normalised(x_ND, reciprocal_rms_N1).mul_(norm_weight_D->value);
    y_NO = at::empty({x_ND.size(0), weight_OD->value.size(0)}, x_ND.options());
    multiply_into(y_NO, norm_ND, weight_OD->value.t());
  }
  if (auto node = node_for<RmsNormLinearBackward>({x_ND})) {
    node->x_ND = SavedVariable(x_ND, false);
    node->reciprocal_rms_N1 = reciprocal_rms_N1;
    node->norm_weight_D = norm_weight_D;
    node->weight_OD = weight_OD;
    torch::autograd::set_history(y_NO, node);
  }
  return y_NO;
}

}  // namespace fsdp
