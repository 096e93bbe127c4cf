#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "trainer/kernels/aten_kernels.h"
#ifdef FSDP_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include "trainer/backend/make_kernels.h"
#endif

// Kernels on the device that they are for, against formulas in fp64 on the CPU whose gradients are
// autograd's. Where there is a GPU, its kernels too.
namespace fsdp {
namespace {

// A set of kernels, its device, and a type to compute in.
struct Subject {
  std::shared_ptr<Kernels> kernels;
  at::TensorOptions options;
  double tolerance;  // relative to the largest element

  at::Tensor on_device(const at::Tensor& tensor) const { return tensor.to(options).clone(); }
  at::Tensor random(at::IntArrayRef shape, double scale = 1) const {
    return on_device(at::randn(shape).mul_(scale));
  }
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  const auto add = [&](std::shared_ptr<Kernels> kernels, at::DeviceType device) {
    const at::TensorOptions options(device);
    all.push_back({kernels, options.dtype(at::kFloat), 1e-5});
    all.push_back({kernels, options.dtype(at::kBFloat16), 2e-2});
    all.push_back({kernels, options.dtype(at::kHalf), 4e-3});
  };
  add(std::make_shared<AtenKernels>(at::kCPU), at::kCPU);
#ifdef FSDP_CUDA
  if (c10::cuda::device_count() > 0)
    add(make_kernels(KernelSet::kTransformerEngine, at::kCUDA), at::kCUDA);
#endif
  return all;
}

void check_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  const at::Tensor wide = actual.detach().to(at::kCPU, at::kDouble);
  const double scale = expected.detach().abs().max().item<double>();
  CHECK((wide.reshape(expected.sizes()) - expected.detach()).abs().max().item<double>() <=
        tolerance * scale);
}

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kDouble).clone().requires_grad_();
}

at::Tensor textbook_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
}

// [N, E] to [N, query * width].
at::Tensor textbook_attention(const at::Tensor& qkv, const at::Tensor& angles,
                              const AttentionHeads& heads) {
  const int64_t length = angles.size(0);
  const at::Tensor all =
      qkv.view({-1, length, heads.query + 2 * heads.key_value, heads.width}).transpose(1, 2);
  const at::Tensor cosine = at::cat({angles, angles}, 1).cos(),
                   sine = at::cat({angles, angles}, 1).sin();
  const auto rotated = [&](const at::Tensor& x) {
    const auto halves = x.chunk(2, -1);
    return x * cosine + at::cat({-halves[1], halves[0]}, -1) * sine;
  };
  const int64_t group = heads.query / heads.key_value;
  const at::Tensor q = rotated(all.narrow(1, 0, heads.query));
  const at::Tensor k =
      rotated(all.narrow(1, heads.query, heads.key_value)).repeat_interleave(group, 1);
  const at::Tensor v =
      all.narrow(1, heads.query + heads.key_value, heads.key_value).repeat_interleave(group, 1);
  const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor scores =
      (q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(heads.width)))
          .masked_fill(future, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).matmul(v).transpose(1, 2).reshape({qkv.size(0), -1});
}

}  // namespace

TEST_CASE("RMSNorm agrees with its formula", "[kernels]") {
  at::manual_seed(1);
  // Sizes that Transformer Engine has tuned kernels for, and others; two blocks a row; odd.
  const int64_t hidden = GENERATE(96, 1024, 4096, 5120, 333);
  for (const Subject& subject : subjects()) {
    const at::Tensor x = subject.random({40, hidden}), weight = subject.random({hidden});
    const at::Tensor dy = subject.random({40, hidden}), residual = subject.random({40, hidden});
    const at::Tensor wide_x = wide(x), wide_weight = wide(weight);
    const at::Tensor y = textbook_rms_norm(wide_x, wide_weight);
    y.backward(wide(dy).detach());

    const Kernels::RmsNorm norm = subject.kernels->rms_norm(x, weight, 1e-5);
    check_close(norm.y_ND, y, subject.tolerance);
    check_close(subject.kernels->rms_norm_again(x, norm.reciprocal_rms_N1, weight, 1e-5), y,
                subject.tolerance);

    GradientBuffer dweight = {at::empty({hidden}, subject.options), false};
    GradientBuffer dx;
    subject.kernels->rms_norm_backward(dy.clone(), x, norm.reciprocal_rms_N1, weight, dweight, dx);
    check_close(dx.tensor, wide_x.grad(), subject.tolerance);
    check_close(dweight.tensor, wide_weight.grad(), subject.tolerance);

    GradientBuffer onto_residual = {residual.clone(), true};
    subject.kernels->rms_norm_backward(dy.clone(), x, norm.reciprocal_rms_N1, weight, dweight,
                                       onto_residual);
    check_close(onto_residual.tensor, wide_x.grad() + wide(residual), subject.tolerance);
    check_close(dweight.tensor, wide_weight.grad() * 2, subject.tolerance);
  }
}

TEST_CASE("SwiGLU agrees with its formula", "[kernels]") {
  at::manual_seed(2);
  const int64_t width = GENERATE(64, 77, 1376);
  for (const Subject& subject : subjects()) {
    const at::Tensor gate_up = subject.random({24, 2 * width}), dh = subject.random({24, width});
    const at::Tensor wide_gate_up = wide(gate_up);
    const auto halves = wide_gate_up.chunk(2, 1);
    const at::Tensor h = at::silu(halves[0]) * halves[1];
    h.backward(wide(dh).detach());

    check_close(subject.kernels->swiglu(gate_up), h, subject.tolerance);
    const auto gradients = subject.kernels->swiglu_backward(dh.clone(), gate_up);
    check_close(gradients.h_NF, h, subject.tolerance);
    check_close(gradients.d_gate_up_N2F, wide_gate_up.grad(), subject.tolerance);
  }
}

TEST_CASE("attention agrees with its formula", "[kernels]") {
  at::manual_seed(3);
  const AttentionHeads heads = GENERATE(AttentionHeads{4, 4, 64}, AttentionHeads{6, 2, 128},
                                        AttentionHeads{3, 1, 40}, AttentionHeads{2, 2, 136});
  const int64_t length = GENERATE(64, 100);
  for (const Subject& subject : subjects()) {
    const at::Tensor qkv =
        subject.random({2 * length, (heads.query + 2 * heads.key_value) * heads.width});
    const at::Tensor dout = subject.random({2 * length, heads.query * heads.width});
    const at::Tensor frequencies =
        at::pow(10000.0, -at::arange(0, heads.width, 2, at::kDouble) / heads.width);
    const at::Tensor angles = at::outer(at::arange(length, at::kDouble), frequencies);
    const at::Tensor wide_qkv = wide(qkv);
    const at::Tensor out = textbook_attention(wide_qkv, angles, heads);
    out.backward(wide(dout).detach());

    const RotaryTable table = subject.kernels->rotary_table(
        angles.to(subject.options.dtype(at::kFloat)), at::kFloat, qkv.scalar_type());
    const Kernels::Attention without =
        subject.kernels->attention(qkv.clone(), heads, table, /*for_backward=*/false);
    check_close(without.out, out, subject.tolerance);
    Kernels::Attention forward =
        subject.kernels->attention(qkv.clone(), heads, table, /*for_backward=*/true);
    check_close(forward.out, out, subject.tolerance);
    check_close(subject.kernels->attention_backward(dout, std::move(forward), heads, table),
                wide_qkv.grad(), subject.tolerance);
  }
}

TEST_CASE("cross-entropy agrees with its formula", "[kernels]") {
  at::manual_seed(4);
  const int64_t vocabulary = GENERATE(1000, 32001);
  for (const Subject& subject : subjects()) {
    const at::Tensor logits = subject.random({9, vocabulary}, 4);
    const at::Tensor labels = at::randint(vocabulary, {9, 1}, at::kLong);
    const at::Tensor wide_logits = wide(logits);
    const at::Tensor losses = -wide_logits.log_softmax(1).gather(1, labels);
    losses.sum().backward();

    const at::Tensor given = labels.to(subject.options.device());
    const at::Tensor loss = at::empty({9, 1}, subject.options.dtype(at::kFloat));
    const at::Tensor tokens = subject.kernels->evaluate_cross_entropy(logits.clone(), given, loss);
    CHECK(at::equal(tokens.cpu(), wide_logits.argmax(1, /*keepdim=*/true)));
    check_close(loss, losses, 1e-5);
    const at::Tensor gradient = logits.clone();
    loss.zero_();
    subject.kernels->cross_entropy(gradient, given, loss);
    check_close(loss, losses, 1e-5);
    check_close(gradient, wide_logits.grad(), subject.tolerance);
  }
}

}  // namespace fsdp
