// Checks kernels beyond 2^31 elements, where 32-bit indices would wrap.
#include <ATen/ATen.h>

#include "base/text/numbers.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/training_step.h"
#include "trainer/train/weights.h"

// Shape suffixes as in kernels.h.
namespace fsdp {
namespace {

constexpr int64_t kLarge = int64_t{1} << 31;
constexpr int64_t kPatternRows = 1024;

// Returns the rows of `pattern`, repeated to more than 2^31 elements.
at::Tensor repeated(const at::Tensor& pattern) {
  const int64_t count = kLarge / pattern.numel() + 1;
  return pattern.repeat({count, 1});
}

at::Tensor last_rows(const at::Tensor& x) {
  return x.narrow(0, x.size(0) - kPatternRows, kPatternRows);
}

// A kernel's results for the last rows of a large tensor, and for these rows alone.
struct Compared {
  at::Tensor found;
  at::Tensor expected;
};

Compared compare_swiglu(Kernels& kernels, const at::TensorOptions& options) {
  const at::Tensor gate_up = at::randn({kPatternRows, 2 * 11008}, options);
  return {last_rows(kernels.swiglu(repeated(gate_up))), kernels.swiglu(gate_up)};
}

Compared compare_swiglu_backward(Kernels& kernels, const at::TensorOptions& options) {
  const at::Tensor gate_up = at::randn({kPatternRows, 2 * 11008}, options);
  const at::Tensor large = repeated(gate_up);
  const at::Tensor dh = at::ones({large.size(0), 11008}, options);
  return {last_rows(kernels.swiglu_backward(dh, large).d_gate_up_N2F),
          kernels.swiglu_backward(at::ones({kPatternRows, 11008}, options), gate_up).d_gate_up_N2F};
}

Compared compare_rms_norm(Kernels& kernels, const at::TensorOptions& options) {
  const at::Tensor x = at::randn({kPatternRows, 4096}, options);
  const at::Tensor weight = at::ones({4096}, options);
  return {last_rows(kernels.rms_norm(repeated(x), weight, 1e-5).y_ND),
          kernels.rms_norm(x, weight, 1e-5).y_ND};
}

Compared compare_product(Kernels& kernels, const at::TensorOptions& options) {
  const at::Tensor x = at::randn({kPatternRows, 256}, options);
  const at::Tensor weight = at::randn({256, 11008}, options);
  const at::Tensor large = x.repeat({kLarge / (kPatternRows * 11008) + 1, 1});
  const auto product = [&](const at::Tensor& a) {
    const at::Tensor out = at::empty({a.size(0), 11008}, options);
    kernels.multiply(out, a, weight);
    return out;
  };
  return {last_rows(product(large)), product(x)};
}

Compared compare_cross_entropy(Kernels& kernels, const at::TensorOptions& options) {
  const at::Tensor logits = at::randn({kPatternRows, 32000}, options);
  const auto losses = [&](const at::Tensor& logits_CV) {
    const at::Tensor labels = at::full({logits_CV.size(0), 1}, 31999, options.dtype(at::kLong));
    const at::Tensor loss = at::empty({logits_CV.size(0), 1}, options.dtype(at::kFloat));
    kernels.cross_entropy(logits_CV, labels, loss);
    return loss;
  };
  return {last_rows(losses(repeated(logits))), losses(logits.clone())};
}

void compare(const std::string& name, const Compared& compared, const ShowRow& show) {
  constexpr double kTolerance = 1e-2;  // a library may choose another kernel for another size
  const at::Tensor expected = compared.expected.to(at::kFloat);
  const double error =
      ((compared.found.to(at::kFloat) - expected).abs().max() / expected.abs().max())
          .item<double>();
  show({name, "error " + with_exponent(error, 1), "at most " + with_exponent(kTolerance, 0),
        error <= kTolerance});
}

// Checks that AdamW changes every element of a parameter of more than 2^31 elements.
void check_optimizer_step(const at::TensorOptions& options, const ShowRow& show) {
  const at::Tensor parameters = at::full({kLarge + kPatternRows}, 0.1, options);
  OptimizerSpec spec;
  spec.rounding = Rounding::kStochastic;
  Optimizer optimizer(spec, {{parameters, {{.parameter = "weight"}}}}, /*seed=*/1,
                      options.device().type());
  const at::Tensor gradient = at::full_like(parameters, 0.01);
  optimizer.step(0, 1, parameters, gradient, 1e-3);
  const int64_t same = parameters.ge(0.1).sum().item<int64_t>();
  show({"AdamW", std::to_string(same) + " elements not stepped", "0", same == 0});
}

// Trains one layer of a 7B model, with so many tokens that its head works in several chunks.
// Compares the losses of one micro-batch of four rows and of four micro-batches of one row.
void check_7b_layer(at::Device device, KernelSet kernels, const ShowRow& show) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kLength = 2048;
  constexpr double kTolerance = 1e-2;
  RunSpec spec;
  spec.precision.kind = PrecisionKind::kBf16True;
  spec.kernels = kernels;
  spec.model.config = {.num_hidden_layers = 1,
                       .hidden_size = 4096,
                       .intermediate_size = 11008,
                       .num_attention_heads = 32,
                       .num_key_value_heads = 32,
                       .vocab_size = 32000,
                       .max_position_embeddings = kLength};
  const auto backend = make_backend(device, kernels);
  const auto alone = make_process_group({}, at::kCPU);
  const Mesh mesh(spec.strategy, *alone);
  const at::Tensor tokens = at::arange(kRows * (kLength + 1), at::kLong)
                                .mul_(7919)
                                .remainder_(32000)
                                .to(device)
                                .view({kRows, kLength + 1});
  const auto loss_by = [&](int64_t rows) {
    std::vector<Batch> batches;
    for (int64_t first = 0; first < kRows; first += rows) {
      const at::Tensor part = tokens.narrow(0, first, rows);
      batches.push_back({.input_ids_BT = part.narrow(1, 0, kLength).contiguous(),
                         .labels_BT = part.narrow(1, 1, kLength).contiguous(),
                         .loss_scale = 1.0 / (kRows * kLength)});
    }
    TrainingStep step(spec, spec.model.config, *backend, mesh, *alone, make_weight_source(spec));
    step.run(1, batches, 1e-3, 0.0, [] {});
    return backend->read(step.run(2, batches, 1e-3, 0.0, [] {}).loss);
  };
  const double expected = loss_by(1);
  const double found = loss_by(kRows);
  show({"one layer of a 7B model, 8192 tokens", "loss " + with_decimals(found, 4),
        with_decimals(expected, 4), std::abs(found / expected - 1) <= kTolerance});
}

}  // namespace

void check_large_sizes(at::Device device, KernelSet set, const ShowRow& show) {
  const auto backend = make_backend(device, set);
  const auto options = at::TensorOptions(device).dtype(at::kBFloat16);
  using Work = Compared (*)(Kernels&, const at::TensorOptions&);
  const std::vector<std::pair<const char*, Work>> works = {
      {"SwiGLU", compare_swiglu},
      {"SwiGLU, backward", compare_swiglu_backward},
      {"RMSNorm", compare_rms_norm},
      {"product", compare_product},
      {"cross-entropy", compare_cross_entropy},
  };
  const auto check = [&](const std::string& name, const std::function<void()>& work) {
    try {
      work();
    } catch (const c10::OutOfMemoryError&) {
      show({name, "left out: the memory that is free does not suffice"});
    }
  };
  for (const auto& [name, work] : works) {
    check(name, [&] { compare(name, work(backend->kernels(), options), show); });
  }
  check("AdamW", [&] { check_optimizer_step(options, show); });
  check("one layer of a 7B model, 8192 tokens", [&] { check_7b_layer(device, set, show); });
}

}  // namespace fsdp
