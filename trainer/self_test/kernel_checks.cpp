// Compares each kernel on a device with the same computation in fp64 on the CPU.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/text/numbers.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/nf4.h"
#include "trainer/self_test/self_test.h"

// Shape suffixes as in kernels.h.
namespace fsdp {
namespace {

constexpr int64_t kTokenCount = 128;
constexpr int64_t kHidden = 256;
constexpr double kEpsilon = 1e-5;

struct Precision {
  at::ScalarType type;
  const char* name;
  double tolerance;  // as a fraction of the largest element
};

// Compares results with the same computation in fp64.
class Comparison {
 public:
  explicit Comparison(at::TensorOptions options) : options_(options) {}

  at::Device device() const { return options_.device(); }
  at::Tensor random(at::IntArrayRef shape) const { return at::randn(shape).to(options_); }
  static at::Tensor wide(const at::Tensor& tensor) {
    return tensor.to(at::kCPU, at::kDouble).clone().requires_grad_();
  }
  void compare(const at::Tensor& actual, const at::Tensor& expected) {
    const at::Tensor difference =
        actual.to(at::kCPU, at::kDouble).reshape(expected.sizes()) - expected.detach();
    const double error =
        difference.abs().max().item<double>() / expected.detach().abs().max().item<double>();
    // The negation also catches NaN.
    if (!(error <= largest_error_)) largest_error_ = error;
  }
  double largest_error() const { return largest_error_; }

 private:
  at::TensorOptions options_;
  double largest_error_ = 0;
};

void compare_products(Kernels& kernels, Comparison& comparison) {
  const at::Tensor a = comparison.random({kTokenCount, kHidden});
  const at::Tensor b = comparison.random({kHidden, 96});
  const at::Tensor out = comparison.random({kTokenCount, 96});
  const at::Tensor product = Comparison::wide(a).matmul(Comparison::wide(b));
  const at::Tensor expected = Comparison::wide(out) + product * 0.5;
  kernels.multiply(out, a, b, /*accumulate=*/true, 0.5);
  comparison.compare(out, expected);
  GradientBuffer gradient{.tensor = at::empty_like(out)};
  kernels.multiply_gradient(gradient, a, b);
  kernels.multiply_gradient(gradient, a, b);
  comparison.compare(gradient.tensor, product * 2);
  GradientBuffer wide_gradient{.tensor = at::empty_like(out, at::kFloat)};
  kernels.multiply_gradient(wide_gradient, a, b);
  kernels.multiply_gradient(wide_gradient, a, b);
  comparison.compare(wide_gradient.tensor, product * 2);
}

// Adapters read and write columns of wider matrices. Other columns must keep their values.
void compare_products_of_columns(Kernels& kernels, Comparison& comparison) {
  const at::Tensor out = comparison.random({kTokenCount, 160});
  const at::Tensor a = comparison.random({kTokenCount, 40}).narrow(1, 8, 24);
  const at::Tensor b = comparison.random({96, 64}).narrow(1, 16, 24);
  const at::Tensor product = Comparison::wide(a).matmul(Comparison::wide(b).t());
  const at::Tensor expected = Comparison::wide(out).detach();
  expected.narrow(1, 32, 96).add_(product.detach(), 0.5);
  kernels.multiply(out.narrow(1, 32, 96), a, b.t(), /*accumulate=*/true, 0.5);
  comparison.compare(out, expected);
}

// A seed always drops the same elements; 4 of 10 are dropped.
void compare_dropout(Kernels& kernels, Comparison& comparison) {
  const Dropout dropout{.probability = 0.4, .seed = 5};
  const at::Tensor x = comparison.random({1000, kHidden}).add_(1);
  const at::Tensor y = kernels.dropped(x, dropout);
  const at::Tensor is_kept = y.ne(0);
  comparison.compare(y, Comparison::wide(x).detach() / 0.6 * is_kept.cpu());
  comparison.compare(kernels.dropped(x, dropout), y.to(at::kCPU, at::kDouble));
  const double kept = is_kept.to(at::kDouble).mean().item<double>();
  comparison.compare(at::full({1}, std::round(20 * kept) / 20), at::full({1}, 0.6, at::kDouble));
}

void compare_rms_norm(Kernels& kernels, Comparison& comparison, int64_t hidden) {
  const at::Tensor x = comparison.random({kTokenCount, hidden});
  const at::Tensor weight = comparison.random({hidden});
  const at::Tensor dy = comparison.random({kTokenCount, hidden});
  const at::Tensor residual = comparison.random({kTokenCount, hidden});
  const at::Tensor wide_x = Comparison::wide(x);
  const at::Tensor wide_weight = Comparison::wide(weight);
  const at::Tensor y = wide_x * at::rsqrt(wide_x.pow(2).mean(-1, true) + kEpsilon) * wide_weight;
  const auto gradients =
      torch::autograd::grad({y}, {wide_x, wide_weight}, {Comparison::wide(dy).detach()});

  const Kernels::RmsNorm norm = kernels.rms_norm(x, weight, kEpsilon);
  comparison.compare(norm.y_ND, y);
  comparison.compare(kernels.rms_norm_again(x, norm.reciprocal_rms_N1, weight, kEpsilon), y);
  GradientBuffer dweight{.tensor = at::empty_like(weight)};
  GradientBuffer dx{.tensor = residual.clone(), .is_written = true};
  kernels.rms_norm_backward(dy.clone(), x, norm.reciprocal_rms_N1, weight, &dweight, dx);
  comparison.compare(dx.tensor, gradients[0] + Comparison::wide(residual));
  GradientBuffer new_dx;
  kernels.rms_norm_backward(dy.clone(), x, norm.reciprocal_rms_N1, weight, &dweight, new_dx);
  comparison.compare(new_dx.tensor, gradients[0]);
  comparison.compare(dweight.tensor, gradients[1] * 2);
}

// Compares at sizes for which libraries have tuned kernels, and at other sizes.
void compare_rms_norms(Kernels& kernels, Comparison& comparison) {
  for (const int64_t hidden : {96, 1024, 4096, 5120, 333}) {
    compare_rms_norm(kernels, comparison, hidden);
  }
}

void compare_swiglu(Kernels& kernels, Comparison& comparison, int64_t width) {
  const at::Tensor gate_up = comparison.random({kTokenCount, 2 * width});
  const at::Tensor dh = comparison.random({kTokenCount, width});
  const at::Tensor wide = Comparison::wide(gate_up);
  const auto halves = wide.chunk(2, 1);
  const at::Tensor h = at::silu(halves[0]) * halves[1];
  const auto gradients = torch::autograd::grad({h}, {wide}, {Comparison::wide(dh).detach()});
  comparison.compare(kernels.swiglu(gate_up), h);
  const Kernels::SwigluGradients actual = kernels.swiglu_backward(dh.clone(), gate_up);
  comparison.compare(actual.h_NF, h);
  comparison.compare(actual.d_gate_up_N2F, gradients[0]);
}

void compare_swiglus(Kernels& kernels, Comparison& comparison) {
  for (const int64_t width : {64, 77, 1376}) compare_swiglu(kernels, comparison, width);
}

at::Tensor attention_in_fp64(const at::Tensor& qkv, const at::Tensor& angles,
                             const AttentionHeads& heads) {
  const int64_t length = angles.size(0);
  const at::Tensor packed =
      qkv.view({-1, length, heads.query + 2 * heads.key_value, heads.width}).transpose(1, 2);
  const auto rotated = [&](const at::Tensor& x) {
    const auto halves = x.chunk(2, -1);
    return at::cat({halves[0] * angles.cos() - halves[1] * angles.sin(),
                    halves[1] * angles.cos() + halves[0] * angles.sin()},
                   -1);
  };
  const auto parts = packed.split_with_sizes({heads.query, heads.key_value, heads.key_value}, 1);
  const int64_t group = heads.query / heads.key_value;
  const at::Tensor q = rotated(parts[0]);
  const at::Tensor k = rotated(parts[1]).repeat_interleave(group, 1);
  const at::Tensor v = parts[2].repeat_interleave(group, 1);
  const at::Tensor causal = at::ones({length, length}, at::kBool).tril();
  const at::Tensor seen = heads.window > 0 ? causal.triu(1 - heads.window) : causal;
  const at::Tensor scores =
      (q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(heads.width)))
          .masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).matmul(v).transpose(1, 2).reshape({qkv.size(0), -1});
}

// Compares attention over sequences of `lengths`, which are equal without `documents`.
void compare_attention(Kernels& kernels, Comparison& comparison, const AttentionHeads& heads,
                       const std::vector<int64_t>& lengths, const DocumentsPtr& documents) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const at::Tensor qkv =
      comparison.random({tokens, (heads.query + 2 * heads.key_value) * heads.width});
  const at::Tensor dout = comparison.random({tokens, heads.query * heads.width});
  const at::Tensor frequencies =
      at::pow(10000.0, -at::arange(0, heads.width, 2, at::kDouble) / heads.width);
  const auto angles_of = [&](const at::Tensor& positions) {
    return at::outer(positions.to(at::kCPU, at::kDouble), frequencies);
  };
  const at::Tensor wide = Comparison::wide(qkv);
  Tensors outputs;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    outputs.push_back(
        attention_in_fp64(wide.narrow(0, first, length), angles_of(at::arange(length)), heads));
    first += length;
  }
  const at::Tensor out = at::cat(outputs);
  const auto gradients = torch::autograd::grad({out}, {wide}, {Comparison::wide(dout).detach()});

  const at::Tensor angles =
      angles_of(documents ? documents->position_ids_N : at::arange(lengths.front()));
  const RotaryTable table = kernels.rotary_table(angles.to(qkv.device(), at::kFloat), documents,
                                                 at::kFloat, qkv.scalar_type());
  Kernels::Attention forward = kernels.attention(qkv.clone(), heads, table, /*for_backward=*/true);
  comparison.compare(forward.out, out);
  comparison.compare(kernels.attention(qkv.clone(), heads, table, /*for_backward=*/false).out, out);
  comparison.compare(kernels.attention_backward(dout, std::move(forward), heads, table),
                     gradients[0]);
}

// Includes grouped queries, and widths that need padding on a GPU.
constexpr std::array kHeadsToCompare = {AttentionHeads{4, 4, 64}, AttentionHeads{6, 2, 128},
                                        AttentionHeads{3, 1, 40}, AttentionHeads{2, 2, 136},
                                        AttentionHeads{2, 1, 10}};

void compare_attentions(Kernels& kernels, Comparison& comparison) {
  for (const AttentionHeads& heads : kHeadsToCompare) {
    for (const int64_t length : {64, 100}) {
      compare_attention(kernels, comparison, heads, {length, length}, nullptr);
    }
  }
}

// Compares two rows of 100 tokens, and documents of one token each, with and without a window.
void compare_packed_attentions(Kernels& kernels, Comparison& comparison) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{37, 1, 62, 100}, std::vector<int64_t>(100, 1)}) {
    const DocumentsPtr documents = make_documents(lengths, 100, comparison.device());
    for (AttentionHeads heads : kHeadsToCompare) {
      compare_attention(kernels, comparison, heads, lengths, documents);
      heads.window = 17;
      compare_attention(kernels, comparison, heads, lengths, documents);
    }
  }
}

// Scales q down, because the softmax would otherwise pick a single key. Shape suffixes: B rows, T
// queries, S keys, H heads, W width.
void compare_biased_attention(Kernels& kernels, Comparison& comparison, bool is_decoder) {
  const int64_t queries = 100;  // more than one of the kernel's tiles, which have 64
  const int64_t keys = is_decoder ? queries : 72;
  const Kernels::BiasedAttention call{
      .q_BTHW = comparison.random({2, queries, 3, 64}).mul_(0.125),
      .k_BSHW = comparison.random({2, keys, 3, 64}),
      .v_BSHW = comparison.random({2, keys, 3, 64}),
      .bias_HTS = comparison.random({3, queries, keys}),
      .key_counts_B = is_decoder
                          ? at::Tensor()
                          : at::tensor({keys, int64_t{41}}, at::kLong).to(comparison.device()),
      .is_causal = is_decoder,
  };
  const Tensors wide = {Comparison::wide(call.q_BTHW), Comparison::wide(call.k_BSHW),
                        Comparison::wide(call.v_BSHW), Comparison::wide(call.bias_HTS)};
  at::Tensor unseen_BHTS = at::zeros({2, 1, queries, keys}, at::kBool);
  if (is_decoder) {
    unseen_BHTS = at::ones({queries, keys}, at::kBool).triu_(1).expand({2, 1, queries, keys});
  } else {
    unseen_BHTS[1].narrow(2, 41, keys - 41).fill_(true);
  }
  const auto by_head = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const at::Tensor scores_BHTS =
      (by_head(wide[0]).matmul(by_head(wide[1]).transpose(2, 3)) + wide[3])
          .masked_fill(unseen_BHTS, -std::numeric_limits<double>::infinity());
  const at::Tensor out_BTHW = by_head(scores_BHTS.softmax(-1).matmul(by_head(wide[2])));
  const at::Tensor dout_BTHW = comparison.random({2, queries, 3, 64});
  const auto gradients =
      torch::autograd::grad({out_BTHW}, wide, {Comparison::wide(dout_BTHW).detach()});

  const Kernels::Attention forward = kernels.biased_attention(call, /*for_backward=*/true);
  comparison.compare(forward.out, out_BTHW.reshape({2 * queries, 3 * 64}));
  const Kernels::BiasedAttentionGradients actual =
      kernels.biased_attention_backward(dout_BTHW.view({2 * queries, 3 * 64}), forward, call);
  comparison.compare(actual.dq_BTHW, gradients[0]);
  comparison.compare(actual.dk_BSHW, gradients[1]);
  comparison.compare(actual.dv_BSHW, gradients[2]);
  comparison.compare(actual.dbias_HTS, gradients[3]);
}

void compare_biased_attentions(Kernels& kernels, Comparison& comparison) {
  for (const bool is_decoder : {true, false}) {
    compare_biased_attention(kernels, comparison, is_decoder);
  }
}

void compare_embedding(Kernels& kernels, Comparison& comparison) {
  const at::Tensor weight = comparison.random({50, kHidden});
  const at::Tensor dy = comparison.random({kTokenCount, kHidden});
  const at::Tensor ids = at::randint(50, {kTokenCount}, at::kLong);
  const at::Tensor wide = Comparison::wide(weight);
  const at::Tensor y = at::embedding(wide, ids);
  const auto gradients = torch::autograd::grad({y}, {wide}, {Comparison::wide(dy).detach()});
  comparison.compare(kernels.embedding(weight, ids.to(weight.device())), y);
  GradientBuffer dweight{.tensor = at::empty_like(weight)};
  kernels.embedding_backward(dy, ids.to(weight.device()), dweight);
  comparison.compare(dweight.tensor, gradients[0]);
}

void compare_cross_entropy(Kernels& kernels, Comparison& comparison) {
  const int64_t vocabulary = 32001;
  const at::Tensor logits = comparison.random({16, vocabulary}).mul_(4);
  const at::Tensor labels = at::randint(vocabulary, {16, 1}, at::kLong);
  const at::Tensor wide = Comparison::wide(logits);
  const at::Tensor losses = -wide.log_softmax(1).gather(1, labels);
  const auto gradients = torch::autograd::grad({losses.sum()}, {wide});
  const at::Tensor loss = at::empty({16, 1}, logits.options().dtype(at::kFloat));
  const at::Tensor tokens =
      kernels.evaluate_cross_entropy(logits.clone(), labels.to(logits.device()), loss);
  comparison.compare(tokens, wide.argmax(1, /*keepdim=*/true).to(at::kDouble));
  comparison.compare(loss, losses);
  kernels.cross_entropy(logits, labels.to(logits.device()), loss);
  comparison.compare(loss, losses);
  comparison.compare(logits, gradients[0]);
}

// Fills free memory, which the next tensors get, with bytes that are NaN in every floating-point
// type.
void poison_free_memory(at::Device device) {
  constexpr int64_t kMiB = 1 << 20;
  Tensors held;
  // A GPU's caching allocator keeps blocks of these sizes apart.
  for (const auto& [bytes, count] :
       {std::pair<int64_t, int>{kMiB / 2, 64}, {4 * kMiB, 16}, {64 * kMiB, 1}}) {
    for (int i = 0; i < count; ++i) {
      held.push_back(at::full({bytes}, 0xFF, at::TensorOptions(device).dtype(at::kByte)));
    }
  }
}

// Compares the bits of NF4's values with the CPU's.
void check_nf4(Kernels& kernels, const Precision& precision, at::Device device,
               const ShowRow& show) {
  constexpr int64_t kSize = 1'000'003;  // its last block is incomplete
  const at::Tensor values = at::randn({kSize});
  Nf4Quantizer quantizer(kSize);
  quantizer.add({values.const_data_ptr<float>(), static_cast<size_t>(kSize)});
  std::vector<uint8_t> quantized = quantizer.finish();
  const at::Tensor bytes =
      at::from_blob(quantized.data(), {static_cast<int64_t>(quantized.size())}, at::kByte);
  const at::Tensor expected = at::empty({kSize}, precision.type);
  dequantize_nf4(bytes, expected);
  const at::Tensor found = at::empty({kSize}, at::TensorOptions(device).dtype(precision.type));
  kernels.dequantize_nf4(bytes.to(device), found);
  const int64_t different = found.cpu().ne(expected).sum().item<int64_t>();
  show({std::string("NF4, ") + precision.name,
        std::to_string(different) + " of " + std::to_string(kSize) + " values differ", "0",
        different == 0});
}

}  // namespace

void check_kernels(Kernels& kernels, at::Device device, const ShowRow& show) {
  using Compare = void (*)(Kernels&, Comparison&);
  const std::vector<std::pair<const char*, Compare>> checks = {
      {"product", compare_products},
      {"product of columns", compare_products_of_columns},
      {"dropout", compare_dropout},
      {"RMSNorm", compare_rms_norms},
      {"SwiGLU", compare_swiglus},
      {"attention", compare_attentions},
      {"packed attention", compare_packed_attentions},
      {"biased attention of T5", compare_biased_attentions},
      {"embedding", compare_embedding},
      {"cross-entropy", compare_cross_entropy},
  };
  for (const Precision& precision :
       {Precision{at::kFloat, "fp32", 2e-4}, Precision{at::kBFloat16, "bf16", 2e-2},
        Precision{at::kHalf, "fp16", 4e-3}}) {
    for (const auto& [name, compare] : checks) {
      poison_free_memory(device);
      Comparison comparison(at::TensorOptions(device).dtype(precision.type));
      compare(kernels, comparison);
      const double error = comparison.largest_error();
      show({std::string(name) + ", " + precision.name, "error " + with_exponent(error, 1),
            "at most " + with_exponent(precision.tolerance, 0), error <= precision.tolerance});
    }
    if (device.is_cpu() || kHasCudaKernels) check_nf4(kernels, precision, device, show);
  }
}

}  // namespace fsdp
