// The reference kernels of products, norms and losses, made of libtorch's operators. On meta they
// allocate what the operators would.
#include "trainer/kernels/aten_kernels.h"

#include <algorithm>

#include "base/system/processor.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/nf4.h"
#include "trainer/kernels/own_kernels.h"
#include "trainer/kernels/wide_type.h"
#include "trainer/kernels/work.h"

// Computes result = alpha * a b + beta * result with oneDNN. libtorch_cpu defines this function,
// but no header declares it.
namespace at::native {
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);
}

namespace fsdp {
namespace {

// The size of a chunk of tokens in the head: as many as have `logits_bytes`, but at least
// `tokens_min`. Each chunk reads and writes the whole weight gradient. On a GPU, this takes less
// time than the products of 1,024 tokens.
struct ChunkSize {
  int64_t logits_bytes;
  int64_t tokens_min;
};
constexpr ChunkSize kChunkOnCpu{.logits_bytes = 16 << 20, .tokens_min = 256};
constexpr ChunkSize kChunkOnGpu{.logits_bytes = 64 << 20, .tokens_min = 1024};

// On the AMD CPUs that were measured, oneDNN is 7 to 10 % faster than MKL. It is not faster for the
// gradients of weights, where both operands are long and thin. For a narrow product, such as an
// adapter's, oneDNN generates about 0.1 MiB of code for each number of rows, and keeps the code.
// Without AVX-512, mkldnn_matmul throws, even for fp32.
bool is_faster_with_mkldnn(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kNarrow = 64;
  return has_avx512() && std::min(a.size(1), b.size(1)) >= kNarrow;
}

// Returns x * factor * weight, rounded to the type of x after each product, like Hugging Face's
// LlamaRMSNorm. `wide_x_ND` is x or, for a narrow x, a wide copy of it, which is consumed.
at::Tensor scaled_rows(const at::Tensor& x_ND, const at::Tensor& wide_x_ND,
                       const at::Tensor& factor_N1, const at::Tensor& weight_D) {
  const at::Tensor y_ND =
      wide_x_ND.is_same(x_ND) ? x_ND * factor_N1 : at::Tensor(wide_x_ND).mul_(factor_N1);
  return y_ND.to(x_ND.scalar_type()).mul_(weight_D);
}

// True if libtorch multiplies factors of this type to an fp32 product. It cannot on a CPU, nor for
// bf16 on GPUs before Ampere.
bool has_wide_product(c10::DeviceType device, int capability_major, const at::Tensor& factor) {
  return device == at::kCUDA &&
         (factor.scalar_type() != at::kBFloat16 || capability_major >= kAmpere);
}

Kernels::RmsNorm fused_rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D,
                                double epsilon) {
  Tensors outputs = launch_operator(
      "_fused_rms_norm", {x_ND, weight_D},
      [&] {
        auto [y_ND, reciprocal_rms_N1] =
            at::_fused_rms_norm(x_ND, {x_ND.size(1)}, weight_D, epsilon);
        return Tensors{y_ND, reciprocal_rms_N1};
      },
      [&] {
        return Tensors{at::empty_like(x_ND),
                       at::empty({x_ND.size(0), 1}, x_ND.options().dtype(wide_type(x_ND)))};
      });
  return {outputs[0], outputs[1]};
}

// Returns the number of parts in which libtorch 2.11 sums the weight's gradient on a GPU, each in
// its own memory (layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel). The number is 0 unless
// there are many short rows.
int64_t parts_of_rms_norm_backward(const at::Tensor& x_ND) {
  constexpr int64_t kRowsMin = 64 << 10, kBlocksMax = 32 << 10, kBlock = 32;
  const int64_t rows = x_ND.size(0);
  const int64_t width = x_ND.size(1);
  if (rows <= kRowsMin || width / kBlock >= kPlannedMultiprocessors / 2) return 0;
  return std::min(kBlocksMax / ((width + kBlock - 1) / kBlock), (rows + kBlock - 1) / kBlock);
}

// Returns the gradients of x and, if it is trained, of the weight.
Tensors fused_rms_norm_backward(const at::Tensor& dy_ND, const at::Tensor& x_ND,
                                const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                                bool is_trained) {
  return launch_operator(
      "_fused_rms_norm_backward", {dy_ND, x_ND, reciprocal_rms_N1, weight_D},
      [&] {
        auto [dx_ND, dweight_D] = at::_fused_rms_norm_backward(
            dy_ND, x_ND, {x_ND.size(1)}, reciprocal_rms_N1, weight_D, {true, is_trained});
        return Tensors{dx_ND, dweight_D};
      },
      [&] {
        Tensors gradients = {at::empty_like(x_ND), at::Tensor()};
        if (!is_trained) return gradients;
        gradients[1] = at::empty_like(weight_D);
        if (const int64_t parts = parts_of_rms_norm_backward(x_ND); parts > 0) {
          const at::Tensor of_parts = at::empty({parts, x_ND.size(1)}, weight_D.options());
          gradients[1] = at::empty_like(weight_D);
        }
        return gradients;
      });
}

}  // namespace

void GradientBuffer::add(const at::Tensor& term) {
  if (!tensor.defined()) {
    tensor = term;
  } else if (is_written) {
    tensor.add_(term.to(tensor.scalar_type()));
  } else {
    tensor.copy_(term);
  }
  is_written = true;
}

at::Tensor GradientBuffer::take() {
  TORCH_CHECK(is_written, "a gradient is wanted that nothing was added to");
  is_written = false;
  return std::move(tensor);
}

bool AtenKernels::has_own_kernels(const at::Tensor& like) const {
  return kHasCudaKernels && device_ == at::kCUDA && own::has_kernels(like);
}

void AtenKernels::multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                           bool accumulate, double scale) {
  const WorkScope work(TimePart::kProductsForward);
  const double beta = accumulate ? 1 : 0;
  if (device_ == at::kCPU && out.scalar_type() == at::kFloat && is_faster_with_mkldnn(a, b)) {
    launch("mkldnn_matmul", {a, b}, {out}, [&] {
      at::native::mkldnn_matmul(a, b, out, static_cast<float>(beta), static_cast<float>(scale));
    });
    return;
  }
  const UncountedMemory workspace;
  at::Tensor target = out;
  at::addmm_out(target, target, a, b, beta, scale);
}

void AtenKernels::dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out) {
  launch("dequantize_nf4", {bytes}, {out}, [&] { fsdp::dequantize_nf4(bytes, out); });
}

void AtenKernels::multiply_gradient(GradientBuffer& gradient, const at::Tensor& a,
                                    const at::Tensor& b, double scale) {
  const WorkScope work(TimePart::kProductsForward);
  const int beta = gradient.is_written ? 1 : 0;
  if (gradient.tensor.scalar_type() == a.scalar_type()) {
    const UncountedMemory workspace;
    at::addmm_out(gradient.tensor, gradient.tensor, a, b, beta, scale);
  } else if (has_wide_product(device_, capability_major_, a)) {
    launch("addmm", {a, b}, {gradient.tensor},
           [&] { at::addmm_out(gradient.tensor, gradient.tensor, a, b, at::kFloat, beta, scale); });
  } else {
    const UncountedMemory in_place_of_a_wide_product(device_ == at::kCPU);
    at::Tensor product = at::empty(gradient.tensor.sizes(), a.options());
    at::addmm_out(product, product, a, b, 0, scale);
    gradient.add(product);
  }
  gradient.is_written = true;
}

Kernels::RmsNorm AtenKernels::rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D,
                                       double epsilon) {
  if (device_ == at::kCUDA) return fused_rms_norm(x_ND, weight_D, epsilon);
  const at::Tensor wide_x_ND = x_ND.to(wide_type(x_ND));
  at::Tensor reciprocal_rms_N1 =
      at::linalg_vector_norm(wide_x_ND, 2, at::IntArrayRef{-1}, /*keepdim=*/true);
  reciprocal_rms_N1.square_().div_(x_ND.size(1)).add_(epsilon).rsqrt_();
  return {scaled_rows(x_ND, wide_x_ND, reciprocal_rms_N1, weight_D), reciprocal_rms_N1};
}

at::Tensor AtenKernels::rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                                       const at::Tensor& weight_D, double epsilon) {
  if (device_ == at::kCUDA) return fused_rms_norm(x_ND, weight_D, epsilon).y_ND;
  return scaled_rows(x_ND, x_ND.to(wide_type(x_ND)), reciprocal_rms_N1, weight_D);
}

// With r the reciprocal root mean square, dweight = sum(dy * x * r). The gradient of x is
// dx = r * dy * weight - r^3 * x * mean(dy * x * weight).
void AtenKernels::rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                                    const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                                    GradientBuffer* dweight_D, GradientBuffer& dx_ND) {
  if (device_ == at::kCUDA) {
    Tensors gradients =
        fused_rms_norm_backward(dy_ND, x_ND, reciprocal_rms_N1, weight_D, dweight_D != nullptr);
    dy_ND.reset();
    if (dweight_D) dweight_D->add(gradients[1]);
    dx_ND.add(gradients[0]);
    return;
  }
  const at::ScalarType type = dy_ND.scalar_type();
  const at::ScalarType wide = wide_type(dy_ND);
  dy_ND = dy_ND.to(wide);
  const at::Tensor wide_x_ND = x_ND.to(wide);
  const at::Tensor wide_weight_D = weight_D.to(wide);

  at::Tensor product_ND = dy_ND * wide_x_ND;
  if (dweight_D) dweight_D->add(product_ND.t().mv(reciprocal_rms_N1.squeeze(1)));
  at::Tensor factor_N1 = product_ND.mv(wide_weight_D).div_(x_ND.size(1)).unsqueeze_(1);
  product_ND.reset();
  factor_N1.mul_(reciprocal_rms_N1).mul_(reciprocal_rms_N1);

  dy_ND.mul_(wide_weight_D).addcmul_(wide_x_ND, factor_N1, -1).mul_(reciprocal_rms_N1);
  dx_ND.add(dy_ND.to(type));
}

at::Tensor AtenKernels::swiglu(const at::Tensor& gate_up_N2F) {
  const int64_t width = gate_up_N2F.size(1) / 2;
  at::Tensor h_NF = at::empty({gate_up_N2F.size(0), width}, gate_up_N2F.options());
  if (has_own_kernels(h_NF)) {
    own::swiglu(gate_up_N2F, h_NF);
    return h_NF;
  }
  at::silu_out(h_NF, gate_up_N2F.narrow(1, 0, width));
  return h_NF.mul_(gate_up_N2F.narrow(1, width, width));
}

Kernels::SwigluGradients AtenKernels::swiglu_backward(at::Tensor dh_NF,
                                                      const at::Tensor& gate_up_N2F) {
  if (has_own_kernels(dh_NF)) {
    const at::Tensor gradient_N2F = at::empty_like(gate_up_N2F);
    own::swiglu_backward(dh_NF, gate_up_N2F, gradient_N2F);
    return {std::move(dh_NF), gradient_N2F};
  }
  const int64_t width = dh_NF.size(1);
  const at::Tensor gate_NF = gate_up_N2F.narrow(1, 0, width);
  const at::Tensor up_NF = gate_up_N2F.narrow(1, width, width);
  at::Tensor h_NF = at::empty_like(dh_NF);
  at::Tensor d_gate_up_N2F = at::empty_like(gate_up_N2F);
  at::Tensor d_gate_NF = d_gate_up_N2F.narrow(1, 0, width);
  at::Tensor d_up_NF = d_gate_up_N2F.narrow(1, width, width);
  at::silu_out(h_NF, gate_NF);
  at::mul_out(d_up_NF, dh_NF, h_NF);
  h_NF.mul_(up_NF);
  dh_NF.mul_(up_NF);
  at::silu_backward_out(d_gate_NF, dh_NF, gate_NF);
  return {h_NF, d_gate_up_N2F};
}

at::Tensor AtenKernels::relu(const at::Tensor& x_NF) { return x_NF.clamp_min(0); }

at::Tensor AtenKernels::relu_backward(at::Tensor dy_NF, const at::Tensor& x_NF) {
  return dy_NF.masked_fill_(x_NF.le(0), 0);
}

at::Tensor AtenKernels::gated_gelu(const at::Tensor& gate_up_N2F) {
  const int64_t width = gate_up_N2F.size(1) / 2;
  at::Tensor h_NF = at::gelu(gate_up_N2F.narrow(1, 0, width), "tanh");
  return h_NF.mul_(gate_up_N2F.narrow(1, width, width));
}

at::Tensor AtenKernels::gated_gelu_backward(const at::Tensor& dh_NF,
                                            const at::Tensor& gate_up_N2F) {
  const int64_t width = dh_NF.size(1);
  const at::Tensor gate_NF = gate_up_N2F.narrow(1, 0, width);
  const at::Tensor up_NF = gate_up_N2F.narrow(1, width, width);
  at::Tensor d_gate_up_N2F = at::empty_like(gate_up_N2F);
  d_gate_up_N2F.narrow(1, 0, width).copy_(at::gelu_backward(dh_NF * up_NF, gate_NF, "tanh"));
  d_gate_up_N2F.narrow(1, width, width).copy_(at::gelu(gate_NF, "tanh").mul_(dh_NF));
  return d_gate_up_N2F;
}

int64_t AtenKernels::chunk_tokens_max(int64_t logits_bytes_per_token) const {
  const ChunkSize& size = device_ == at::kCPU ? kChunkOnCpu : kChunkOnGpu;
  return std::max(size.tokens_min, size.logits_bytes / logits_bytes_per_token);
}

namespace {

// Computes loss_C1 = -log softmax(logits)[label]; the logits become the probabilities. With m the
// largest logit and p the probabilities, log-sum-exp = m - log max(p). max(p) is at least 1 / V, so
// its logarithm is accurate. This way, only softmax takes exponentials of the logits.
void softmax_and_loss(at::Tensor& logits_CV, const at::Tensor& labels_C1, at::Tensor& loss_C1) {
  at::amax_out(loss_C1, logits_CV, -1, /*keepdim=*/true);
  loss_C1.sub_(logits_CV.gather(1, labels_C1));
  at::_softmax_out(logits_CV, logits_CV, -1, /*half_to_float=*/false);
  loss_C1.sub_(logits_CV.amax(-1, /*keepdim=*/true).log_());
}

}  // namespace

void AtenKernels::cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                at::Tensor loss_C1) {
  if (has_own_kernels(logits_CV)) return own::cross_entropy(logits_CV, labels_C1, loss_C1);
  at::Tensor probabilities_CV = logits_CV.to(wide_type(logits_CV));
  softmax_and_loss(probabilities_CV, labels_C1, loss_C1);
  const at::Tensor minus_one = at::full({1, 1}, -1, probabilities_CV.options());
  probabilities_CV.scatter_add_(1, labels_C1, minus_one.expand(labels_C1.sizes()));
  if (!probabilities_CV.is_same(logits_CV)) logits_CV.copy_(probabilities_CV);
}

at::Tensor AtenKernels::evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                               at::Tensor loss_C1) {
  if (has_own_kernels(logits_CV)) {
    const at::Tensor tokens_C1 = at::empty(labels_C1.sizes(), labels_C1.options());
    own::evaluate_cross_entropy(logits_CV, labels_C1, loss_C1, tokens_C1);
    return tokens_C1;
  }
  at::Tensor probabilities_CV = logits_CV.to(wide_type(logits_CV));
  softmax_and_loss(probabilities_CV, labels_C1, loss_C1);
  return probabilities_CV.argmax(-1, /*keepdim=*/true);
}

}  // namespace fsdp
