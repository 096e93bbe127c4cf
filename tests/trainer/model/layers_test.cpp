#include "trainer/model/layers.h"

#include <catch2/catch.hpp>

#include "tests/trainer/model/gradient_check.h"

namespace fsdp::layers_test {

const at::TensorOptions kDouble = at::TensorOptions(at::kDouble);
const at::TensorOptions kFloat = at::TensorOptions(at::kFloat);

// Sequences are as long as positions_T. A query sees the keys for which mask_TT is true.
at::Tensor textbook_attention(const at::Tensor& qkv_NE, const at::Tensor& positions_T,
                              const at::Tensor& mask_TT, const AttentionHeads& heads,
                              double theta) {
  const at::Tensor packed =
      qkv_NE.view({-1, positions_T.size(0), heads.query + 2 * heads.key_value, heads.width})
          .transpose(1, 2);
  const auto parts = packed.split_with_sizes({heads.query, heads.key_value, heads.key_value}, 1);
  const int64_t group = heads.query / heads.key_value;
  const at::Tensor q = textbook_rotary(parts[0], positions_T, theta);
  const at::Tensor k = textbook_rotary(parts[1], positions_T, theta).repeat_interleave(group, 1);
  const at::Tensor v = parts[2].repeat_interleave(group, 1);
  const at::Tensor scores =
      (q.matmul(k.transpose(2, 3)) / std::sqrt(double(heads.width)))
          .masked_fill(mask_TT.logical_not(), -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).matmul(v).transpose(1, 2).reshape({-1, heads.query * heads.width});
}

// Limits a causal mask to the last `window` tokens of each query, itself included; 0: all.
at::Tensor windowed(const at::Tensor& mask_TT, int64_t window) {
  return window == 0 ? mask_TT : mask_TT.triu(1 - window);
}

TEST_CASE("embedding gives and adds the gradient of its rows") {
  const at::Tensor ids = at::tensor({3, 1, 3, 0}, at::kLong);
  const ParameterPtr weight = random_parameter({5, 4}, kDouble);
  const auto backward = [&] {
    LayerCall call;
    const Activation y = embedding(call.pass, ids, weight);
    CHECK(at::equal(y.value, weight->value.index_select(0, ids)));
    y.gradient->add(at::ones_like(y.value));
    call.tape.run_backward();
  };
  backward();
  const at::Tensor occurrences = at::tensor({1, 1, 0, 2, 0}, kDouble).unsqueeze(1).expand({5, 4});
  CHECK(at::equal(weight->gradient.tensor, occurrences));
  backward();
  CHECK(at::equal(weight->gradient.tensor, occurrences * 2));
}

// A linear layer with or without a bias.
struct SomeLinear {
  explicit SomeLinear(int64_t outputs, int64_t inputs)
      : linear{.weight = random_parameter({outputs, inputs}, kDouble),
               .bias = GENERATE(false, true) ? random_parameter({outputs}, kDouble) : nullptr} {}

  // Appends the parameters to `all`.
  std::vector<ParameterPtr> parameters(std::vector<ParameterPtr> all = {}) const {
    all.push_back(linear.weight);
    if (linear.bias) all.push_back(linear.bias);
    return all;
  }
  // `w`: parameters() as tensors, from `first` on.
  static at::Tensor textbook(const at::Tensor& x, const Tensors& w, size_t first = 0) {
    const at::Tensor product = x.matmul(w[first].t());
    return w.size() > first + 1 ? product + w[first + 1] : product;
  }

  Linear linear;
};

TEST_CASE("layers of norms and products match autograd") {
  const ParameterPtr norm = random_parameter({8}, kDouble);
  const SomeLinear some(7, 8);
  const at::Tensor x_8 = at::randn({6, 8}, kDouble), x_7 = at::randn({6, 7}, kDouble);
  const auto norm_of = [](const Tensors& x, const Tensors& w) {
    return textbook_rms_norm(x[0], w[0], 0.1);
  };
  SECTION("residual_linear") {
    check_gradients(
        {x_7, x_8}, some.parameters(),
        [&](Pass& pass, const auto& x) { return residual_linear(pass, x[0], x[1], some.linear); },
        [](const Tensors& x, const Tensors& w) { return x[0] + SomeLinear::textbook(x[1], w); },
        1e-12);
  }
  SECTION("rms_norm") {
    check_gradients(
        {x_8}, {norm}, [&](Pass& pass, const auto& x) { return rms_norm(pass, x[0], norm, 0.1); },
        norm_of, 1e-12);
  }
  SECTION("rms_norm_linear") {
    check_gradients(
        {x_8}, some.parameters({norm}),
        [&](Pass& pass, const auto& x) {
          return rms_norm_linear(pass, x[0], norm, 0.1, some.linear);
        },
        [&](const Tensors& x, const Tensors& w) {
          return SomeLinear::textbook(norm_of(x, w), w, 1);
        },
        1e-12);
  }
  SECTION("residual_swiglu_linear") {
    check_gradients(
        {x_7, at::randn({6, 16}, kDouble)}, some.parameters(),
        [&](Pass& pass, const auto& x) {
          return residual_swiglu_linear(pass, x[0], x[1], some.linear);
        },
        [](const Tensors& x, const Tensors& w) {
          const auto gate_up = x[1].chunk(2, 1);
          return x[0] + SomeLinear::textbook(at::silu(gate_up[0]) * gate_up[1], w);
        },
        1e-12);
  }
}

TEST_CASE("head_norms matches autograd, of one token too") {
  const int64_t tokens = GENERATE(5, 1);
  const AttentionHeads heads{.query = 4, .key_value = 2, .width = 6};
  const ParameterPtr query = random_parameter({6}, kDouble);
  const ParameterPtr key = random_parameter({6}, kDouble);
  check_gradients(
      {at::randn({tokens, 8 * 6}, kDouble)}, {query, key},
      [&](Pass& pass, const auto& x) { return head_norms(pass, x[0], heads, query, key, 0.1); },
      [&](const Tensors& x, const Tensors& w) {
        const auto parts = x[0].view({tokens, 8, 6}).split_with_sizes({4, 2, 2}, 1);
        return at::cat({textbook_rms_norm(parts[0], w[0], 0.1),
                        textbook_rms_norm(parts[1], w[1], 0.1), parts[2]},
                       1)
            .flatten(1);
      },
      1e-12);
}

TEST_CASE("causal_attention matches autograd for any grouping of heads, in any window") {
  const int64_t key_value = GENERATE(4, 2, 1);
  const int64_t window = GENERATE(0, 1, 4, 8, 9, 10);
  const AttentionHeads heads{.query = 4, .key_value = key_value, .width = 6, .window = window};
  const int64_t length = 9;
  const double theta = 100;
  const at::Tensor causal = windowed(at::ones({length, length}, at::kBool).tril(), window);
  const at::Tensor qkv = at::randn({2 * length, (4 + 2 * key_value) * 6}, kDouble);
  RotaryEmbedding rotary(heads.width, theta, at::kFloat);
  check_gradients(
      {qkv}, {},
      [&](Pass& pass, const auto& x) {
        return causal_attention(pass, x[0], length, heads, rotary);
      },
      [&](const Tensors& x, const Tensors&) {
        return textbook_attention(x[0], at::arange(length, kDouble), causal, heads, theta);
      },
      1e-10);
}

TEST_CASE("causal_attention within documents matches autograd with a mask of blocks") {
  const int64_t key_value = GENERATE(4, 2, 1);
  const int64_t window = GENERATE(0, 3);
  const AttentionHeads heads{.query = 4, .key_value = key_value, .width = 6, .window = window};
  const double theta = 100;
  const int64_t length = 9;
  Batch batch;
  batch.documents = make_documents({5, 1, 3, 9, 1, 8}, length, at::kCPU);
  const at::Tensor positions_N = at::cat({at::arange(5), at::arange(1), at::arange(3),
                                          at::arange(9), at::arange(1), at::arange(8)})
                                     .to(at::kDouble);
  const at::Tensor document_N = at::repeat_interleave(at::tensor({5, 1, 3, 9, 1, 8}, at::kLong));
  const at::Tensor mask_NN = windowed(document_N.unsqueeze(1).eq(document_N).tril(), window);
  RotaryEmbedding rotary(heads.width, theta, at::kFloat);
  check_gradients(
      {at::randn({3 * length, (4 + 2 * key_value) * 6}, kDouble)}, {},
      [&](Pass& pass, const auto& x) {
        Pass packed{pass.kernels, batch, pass.tape, pass.activations};
        return causal_attention(packed, x[0], length, heads, rotary);
      },
      [&](const Tensors& x, const Tensors&) {
        return textbook_attention(x[0], positions_N, mask_NN, heads, theta);
      },
      1e-10);
}

TEST_CASE("documents of another number of tokens than the batch are refused") {
  LayerCall call;
  call.batch.documents = make_documents({2, 2}, 4, at::kCPU);
  RotaryEmbedding rotary(2, 10000.0, at::kFloat);
  CHECK_THROWS_WITH(causal_attention(call.pass, input(at::randn({8, 6})), 4, {1, 1, 2}, rotary),
                    Catch::Contains("the documents have 4 tokens, but the batch has 8"));
}

TEST_CASE("the rotary table is that of the length asked for") {
  AtenKernels kernels(at::kCPU);
  RotaryEmbedding rotary(4, 10000.0, at::kFloat);
  rotary.table(kernels, 2, nullptr, kFloat);
  const RotaryTable longer = rotary.table(kernels, 5, nullptr, kFloat);
  CHECK(longer.tensors[0].size(0) == 5);
  CHECK(longer.tensors[0][4][0][0].item<float>() == Approx(std::cos(4.0)));
  CHECK(rotary.table(kernels, 3, nullptr, kFloat).tensors[1].size(0) == 3);
}

TEST_CASE("the rotary table is that of the documents asked for, kept while they are the same") {
  AtenKernels kernels(at::kCPU);
  RotaryEmbedding rotary(4, 10000.0, at::kFloat);
  const auto sines = [&](const DocumentsPtr& documents) {
    return rotary.table(kernels, 4, documents, kFloat).tensors[1];
  };
  const at::Tensor whole = sines(nullptr);
  const DocumentsPtr documents = make_documents({3, 1}, 4, at::kCPU);
  const at::Tensor packed = sines(documents);
  CHECK(at::equal(packed.narrow(0, 0, 3), whole.narrow(0, 0, 3)));
  CHECK(at::equal(packed[3], whole[0]));
  CHECK(sines(documents).is_same(packed));
  CHECK(
      at::equal(sines(make_documents({1, 3}, 4, at::kCPU)).narrow(0, 1, 3), whole.narrow(0, 0, 3)));
  CHECK(at::equal(sines(nullptr), whole));
}

TEST_CASE("a layer's value may be another buffer in backward") {
  const ParameterPtr weight = random_parameter({7, 5}, kDouble);
  LayerCall call;
  const Activation x = input(at::randn({2, 5}, kDouble));
  const Activation y = residual_linear(call.pass, input(at::zeros({2, 7}, kDouble)), x, {weight});
  const at::Tensor whole_again = weight->value.clone();
  weight->value.reset();
  weight->value = whole_again;
  const at::Tensor dy = at::randn_like(y.value);
  y.gradient->add(dy.clone());
  call.tape.run_backward();
  CHECK(relative_error(x.gradient->take(), dy.matmul(whole_again)) < 1e-12);
}

TEST_CASE("an activation that several layers read gets the sum of their gradients") {
  const ParameterPtr first = random_parameter({7, 5}, kDouble);
  const ParameterPtr second = random_parameter({7, 5}, kDouble);
  LayerCall call;
  const Activation residual = input(at::zeros({2, 7}, kDouble));
  const Activation x = input(at::randn({2, 5}, kDouble));
  const Activation between = residual_linear(call.pass, residual, x, {first});
  const Activation y = residual_linear(call.pass, between, x, {second});
  const at::Tensor dy = at::randn_like(y.value);
  y.gradient->add(dy.clone());
  call.tape.run_backward();
  CHECK(relative_error(x.gradient->take(), dy.matmul(first->value + second->value)) < 1e-12);
  CHECK(relative_error(residual.gradient->take(), dy) == 0);
}

TEST_CASE("a tape keeps what backward reads only where it records, and lets go of it") {
  const ParameterPtr weight = random_parameter({7, 5}, kDouble);
  const auto uses_of_x = [&](Tape::Mode mode) {
    LayerCall call(mode);
    const at::Tensor x = at::randn({2, 5}, kDouble);
    const Activation y =
        residual_linear(call.pass, input(at::zeros({2, 7}, kDouble)), input(x), {weight});
    CHECK((y.gradient != nullptr) == (mode != Tape::Mode::kNoGradients));
    const auto kept = x.use_count();
    if (mode == Tape::Mode::kRecord) {
      y.gradient->add(at::ones_like(y.value));
      call.tape.run_backward();
      CHECK(x.use_count() == 1);
    }
    return kept;
  };
  CHECK(uses_of_x(Tape::Mode::kRecord) > 1);
  CHECK(uses_of_x(Tape::Mode::kForget) == 1);
  CHECK(uses_of_x(Tape::Mode::kNoGradients) == 1);
}

TEST_CASE("bf16 layers stay close to fp32") {
  const auto bf16 = at::TensorOptions(at::kBFloat16);
  const ParameterPtr norm = random_parameter({32}, bf16);
  const ParameterPtr weight = random_parameter({16, 32}, bf16);
  const ParameterPtr down = random_parameter({32, 8}, bf16);
  const auto layer = [&](Pass& pass, const std::vector<Activation>& x) {
    const Activation gate_up = rms_norm_linear(pass, x[0], norm, 1e-5, {weight});
    return residual_swiglu_linear(pass, x[0], gate_up, {down});
  };
  const auto reference = [](const Tensors& x, const Tensors& w) {
    const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
    const auto gate_up =
        textbook_rms_norm(wide(x[0]), wide(w[0]), 1e-5).matmul(wide(w[1]).t()).chunk(2, 1);
    return wide(x[0]) + (at::silu(gate_up[0]) * gate_up[1]).matmul(wide(w[2]).t());
  };
  check_gradients({at::randn({20, 32}, bf16)}, {norm, weight, down}, layer, reference, 0.02);
}

}  // namespace fsdp::layers_test
