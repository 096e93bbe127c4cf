#include "trainer/kernels/transformer_engine.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <catch2/catch.hpp>

#include "tests/trainer/error_of.h"
#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/backend/backend.h"
#include "trainer/kernels/transformer_engine_kernels.h"

namespace fsdp::transformer_engine_test {

// Checks the arguments of Transformer Engine as far as possible without a GPU. Tensors lie in host
// memory. A call that passes the host's checks ends where it asks for the device.

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

constexpr int64_t kTokens = 32;
constexpr int64_t kHidden = 256;
constexpr int64_t kSequenceLength = 16;
constexpr AttentionHeads kHeads = {.query = 4, .key_value = 2, .width = 64};
constexpr int64_t kPacked = (4 + 2 * 2) * 64;

at::TensorOptions options(at::ScalarType type = at::kBFloat16) {
  return at::TensorOptions(at::kCPU).dtype(type);
}

#define CHECK_REACHES_DEVICE(name, call) \
  CHECK_THAT(error_of([&] { call; }), Contains(name) && SAYS_THAT_THERE_IS_NO_GPU)

// `call` must end with an error that says this.
#define CHECK_SAYS(text, call) CHECK_THAT(error_of([&] { call; }), Contains(text))

bool has_gpu() { return c10::cuda::device_count() > 0; }

TEST_CASE("RMSNorm reaches its launch, and wrong tensors do not", "[transformer_engine]") {
  if (has_gpu()) return;
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const at::Tensor x = at::zeros({kTokens, kHidden}, options(type));
  const at::Tensor dy = at::zeros_like(x), residual = at::zeros_like(x);
  const at::Tensor weight = at::zeros({kHidden}, options(type)), dweight = at::zeros_like(weight);
  const at::Tensor rms = at::zeros({kTokens}, options(at::kFloat));

  CHECK_REACHES_DEVICE("nvte_rmsnorm_fwd", te::rms_norm(x, weight, 1e-5, dy, rms));
  CHECK_REACHES_DEVICE("nvte_rmsnorm_bwd",
                       te::rms_norm_backward(dy, x, rms, weight, {}, dy, dweight));
  CHECK_REACHES_DEVICE("nvte_rmsnorm_bwd_add",
                       te::rms_norm_backward(dy, x, rms, weight, residual, residual, dweight));

  const at::Tensor wide = at::zeros({kTokens, kHidden + 8}, options(type));
  CHECK_SAYS("Output tensor must have the same shape as x",
             te::rms_norm(x, weight, 1e-5, wide, rms));
  CHECK_SAYS("not called with Double", te::rms_norm(x, weight, 1e-5, dy, rms.to(at::kDouble)));
  CHECK_SAYS("RSigma", te::rms_norm(x, weight, 1e-5, dy, weight));
  CHECK_SAYS("dx->data.shape == x.data.shape",
             te::rms_norm_backward(dy, x, rms, weight, {}, wide, dweight));
  CHECK_SAYS("add.data.shape == x.data.shape",
             te::rms_norm_backward(dy, x, rms, weight, wide, dy, dweight));
  CHECK_SAYS("should be contiguous", te::rms_norm(x.t().contiguous().t(), weight, 1e-5, dy, rms));
}

TEST_CASE("SwiGLU reaches its launch, and wrong tensors do not", "[transformer_engine]") {
  if (has_gpu()) return;
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const at::Tensor gate_up = at::zeros({kTokens, 2 * kHidden}, options(type));
  const at::Tensor h = at::zeros({kTokens, kHidden}, options(type));

  CHECK_REACHES_DEVICE("nvte_swiglu", te::swiglu(gate_up, h));
  CHECK_REACHES_DEVICE("nvte_dswiglu", te::swiglu_backward(h, gate_up, at::zeros_like(gate_up)));

  CHECK_SAYS("should be [32, 256]", te::swiglu(gate_up, gate_up));
  CHECK_SAYS("Wrong Grad shape", te::swiglu_backward(gate_up, gate_up, at::zeros_like(gate_up)));
  CHECK_SAYS("Wrong output shape", te::swiglu_backward(h, gate_up, h));
}

// Queries, keys and log-sum-exps of sequences, or of documents whose tokens follow each other.
struct AttentionTensors {
  AttentionTensors(at::ScalarType type, bool has_documents)
      : qkv(at::zeros({kTokens, kPacked}, options(type))),
        angles(at::zeros({has_documents ? kTokens : kSequenceLength, kHeads.width},
                         options(at::kFloat))),
        q(at::zeros({has_documents ? 1 : kTokens / kSequenceLength, angles.size(0), kHeads.query,
                     kHeads.width},
                    options(type))),
        k(q.narrow(2, 0, kHeads.key_value).contiguous()),
        sums(has_documents ? at::zeros({kTokens, kHeads.query, 1})
                           : at::zeros({q.size(0), kHeads.query, kSequenceLength, 1})) {}

  at::Tensor qkv, angles, q, k, sums;
};

TEST_CASE("attention reaches its launch, and wrong tensors do not", "[transformer_engine]") {
  if (has_gpu()) return;
  const at::ScalarType type = GENERATE(at::kHalf, at::kBFloat16);
  const bool has_documents = GENERATE(false, true);
  const int64_t window = has_documents ? GENERATE(0, 5) : 0;
  const DocumentsPtr documents =
      has_documents ? make_documents({9, 1, 6, 16}, kSequenceLength, at::kCPU) : nullptr;
  const Documents* within = documents.get();
  const auto [qkv, angles, q, k, sums] = AttentionTensors(type, has_documents);

  CHECK_REACHES_DEVICE("nvte_fused_qkv_rope_forward", te::split_and_rotate(qkv, angles, q, k, k));
  CHECK_REACHES_DEVICE("nvte_fused_qkv_rope_backward",
                       te::join_and_rotate_back(q, k, k, angles, qkv));
  CHECK_REACHES_DEVICE("nvte_fused_attn_fwd",
                       te::causal_attention(q, k, k, q, sums, within, window, true));
  CHECK_REACHES_DEVICE("nvte_fused_attn_bwd",
                       te::causal_attention_backward(q, q, q, k, k, sums, q, k, k, within, window));
  CHECK_SAYS(has_documents ? "should be [32, 4, 1]" : "should be [2, 4, 16, 1]",
             te::causal_attention(q, k, k, q, sums.unsqueeze(0), within, window, true));
}

TEST_CASE("attention refuses tensors of other shapes and types", "[transformer_engine]") {
  const auto [qkv, angles, q, k, sums] = AttentionTensors(at::kBFloat16, false);
  CHECK_SAYS("should be [32, 768]", te::split_and_rotate(qkv, angles, q, q, q));
  CHECK_SAYS("should be [16, 64]", te::split_and_rotate(qkv, angles.narrow(0, 0, 8), q, k, k));
  CHECK_SAYS("a tensor of Float should be of",
             te::split_and_rotate(qkv, angles, q, k, k.to(at::kFloat)));
  CHECK_SAYS("should be [2, 16, 4, 64]", te::causal_attention(q, k, k, k, sums, nullptr, 0, true));
  CHECK_SAYS("should be [2, 16, 2, 64]",
             te::causal_attention_backward(q, q, q, k, k, sums, q, q, q, nullptr, 0));
}

TEST_CASE("attention refuses documents that are not the tensors'", "[transformer_engine]") {
  const auto [qkv, angles, q, k, sums] = AttentionTensors(at::kBFloat16, true);
  const DocumentsPtr fewer = make_documents({9, 1, 6}, kSequenceLength, at::kCPU);
  CHECK_SAYS("should be [1, 16, 4, 64]",
             te::causal_attention(q, k, k, q, sums, fewer.get(), 0, true));
  Documents wide = *make_documents({9, 1, 6, 16}, kSequenceLength, at::kCPU);
  wide.starts_on_device = wide.starts_on_device.to(at::kLong);
  CHECK_SAYS("a tensor of Long should be of Int",
             te::causal_attention(q, k, k, q, sums, &wide, 0, true));
}

TEST_CASE("what Transformer Engine has no kernel for is ATen's", "[transformer_engine]") {
  const at::TensorOptions meta = options().device(at::kMeta);
  TransformerEngineKernels kernels;
  const auto tensors_of_table = [&](int64_t width, at::ScalarType buffer, at::ScalarType type) {
    const at::Tensor angles = at::empty({kSequenceLength, width / 2}, meta.dtype(at::kFloat));
    return kernels.rotary_table(angles, nullptr, buffer, type).tensors.size();
  };
  CHECK(tensors_of_table(128, at::kFloat, at::kBFloat16) == 1);
  CHECK(tensors_of_table(128, at::kFloat, at::kHalf) == 1);
  CHECK(tensors_of_table(128, at::kFloat, at::kFloat) == 2);
  CHECK(tensors_of_table(128, at::kBFloat16, at::kBFloat16) == 2);
  CHECK(tensors_of_table(136, at::kFloat, at::kBFloat16) == 2);
  CHECK(tensors_of_table(100, at::kFloat, at::kBFloat16) == 2);
}

TEST_CASE("RMSNorm on meta allocates and launches what it does on a GPU", "[transformer_engine]") {
  const at::TensorOptions meta = options().device(at::kMeta);
  const at::Tensor x = at::empty({kTokens, kHidden}, meta), weight = at::empty({kHidden}, meta);
  const int64_t bytes = x.nbytes();
  constexpr int64_t kWorkspace = 132 * 6 * kHidden * 4;
  TransformerEngineKernels kernels;
  Kernels::RmsNorm norm;
  {
    const ObservedCalls calls;
    norm = kernels.rms_norm(x, weight, 1e-5);
    CHECK(calls.names_of_launches() == Strings{"nvte_rmsnorm_fwd"});
    CHECK(calls.allocations() == Numbers{bytes, kTokens * 4, 1});
    CHECK(calls.call("nvte_rmsnorm_fwd").read_bytes == bytes + kHidden * 2);
    CHECK(calls.call("nvte_rmsnorm_fwd").written_bytes == bytes + kTokens * 4);
  }
  GradientBuffer dweight = {at::empty({kHidden}, meta), false};
  GradientBuffer dx;
  {
    const at::Tensor dy = at::empty_like(x);
    const ObservedCalls calls;  // in place, allocates only the workspace
    kernels.rms_norm_backward(dy, x, norm.reciprocal_rms_N1, weight, &dweight, dx);
    CHECK(dx.tensor.is_same(dy));
    CHECK((dx.is_written && dweight.is_written));
    CHECK(calls.names_of_launches() == Strings{"nvte_rmsnorm_bwd"});
    CHECK(calls.allocations() == Numbers{kWorkspace});
  }
  {
    const ObservedCalls calls;  // adds to both gradients
    const at::Tensor residual = dx.tensor;
    kernels.rms_norm_backward(x, x, norm.reciprocal_rms_N1, weight, &dweight, dx);
    CHECK(dx.tensor.is_same(residual));
    CHECK(calls.names_of_launches() == Strings{"nvte_rmsnorm_bwd_add", "aten::add_"});
    CHECK(calls.allocations() == Numbers{kHidden * 2, kWorkspace});
    CHECK(calls.call("nvte_rmsnorm_bwd_add").read_bytes == 3 * bytes + kHidden * 2 + kTokens * 4);
  }
  {
    const ObservedCalls calls;  // the weight's gradient has a wider type
    GradientBuffer wide = {at::empty({kHidden}, meta.dtype(at::kFloat)), false};
    kernels.rms_norm_backward(x, x, norm.reciprocal_rms_N1, weight, &wide, dx);
    CHECK(calls.names_of_launches() == Strings{"nvte_rmsnorm_bwd_add", "aten::copy_"});
    CHECK(calls.allocations() == Numbers{kHidden * 4, kHidden * 2, kWorkspace});
  }
}

TEST_CASE("SwiGLU on meta allocates and launches what it does on a GPU", "[transformer_engine]") {
  const at::Tensor gate_up = at::empty({kTokens, 2 * kHidden}, options().device(at::kMeta));
  const int64_t bytes = gate_up.nbytes();
  TransformerEngineKernels kernels;
  const ObservedCalls calls;
  const at::Tensor h = kernels.swiglu(gate_up);
  const Kernels::SwigluGradients gradients = kernels.swiglu_backward(h, gate_up);
  CHECK(gradients.h_NF.is_same(h));
  CHECK(calls.allocations() == Numbers{bytes / 2, bytes});
  if (kHasCudaKernels) {
    CHECK(calls.names_of_launches() == Strings{"nvte_swiglu", "swiglu_backward"});
    return;
  }
  CHECK(calls.names_of_launches() == Strings{"nvte_swiglu", "nvte_dswiglu", "nvte_swiglu"});
  CHECK(calls.call("nvte_dswiglu").read_bytes == bytes * 3 / 2);
}

TEST_CASE("attention on meta allocates and launches what it does on a GPU",
          "[transformer_engine]") {
  const bool has_documents = GENERATE(false, true);
  const at::TensorOptions meta = options().device(at::kMeta);
  const int64_t length = has_documents ? kTokens : kSequenceLength;
  TransformerEngineKernels kernels;
  const RotaryTable table = kernels.rotary_table(
      at::empty({length, kHeads.width / 2}, meta.dtype(at::kFloat)),
      has_documents ? make_documents({9, 1, 6, 16}, kSequenceLength, at::kMeta) : nullptr,
      at::kFloat, at::kBFloat16);
  CHECK(table.tensors[0].sizes() == at::IntArrayRef{length, kHeads.width});
  constexpr int64_t kQuery = kTokens * 4 * 64 * 2, kKey = kTokens * 2 * 64 * 2;
  constexpr int64_t kSums = kTokens * 4 * 4;
  Kernels::Attention forward;
  {
    const ObservedCalls calls;
    forward = kernels.attention(at::empty({kTokens, kPacked}, meta), kHeads, table, true);
    CHECK(calls.names_of_launches() ==
          Strings{"nvte_fused_qkv_rope_forward", "nvte_fused_attn_fwd"});
    CHECK(calls.allocations() ==
          Numbers{kTokens * kPacked * 2, kQuery, kKey, kKey, kQuery, kSums, 1});
    CHECK(forward.out.sizes() == at::IntArrayRef{kTokens, 4 * 64});
    CHECK(
        kernels.attention(at::empty({kTokens, kPacked}, meta), kHeads, table, false).saved.empty());
  }
  const ObservedCalls calls;
  const at::Tensor dout = at::empty({kTokens, 4 * 64}, meta);
  const at::Tensor dqkv = kernels.attention_backward(dout, std::move(forward), kHeads, table);
  CHECK(dqkv.sizes() == at::IntArrayRef{kTokens, kPacked});
  CHECK(calls.names_of_launches() ==
        Strings{"nvte_fused_attn_bwd", "nvte_fused_qkv_rope_backward"});
  // Within documents, cuDNN plans for 1,024 tokens.
  const int64_t workspace =
      has_documents ? 1024 * 4 * (64 * 4 + 4 + 2 * 64 * 2) : 2 * kQuery + kSums + 2 * kQuery;
  CHECK(calls.allocations() ==
        Numbers{kQuery, kQuery, kKey, kKey, workspace, kTokens * kPacked * 2});
}

// The loaded library has its own copy of every static variable that it is linked with.
TEST_CASE("the loaded library plans an A100's attention, and not always a Hopper GPU's",
          "[transformer_engine]") {
  const at::TensorOptions meta = options().device(at::kMeta);
  const auto launches = [&](int64_t compute_capability, bool has_documents) {
    constexpr int64_t kWidth = 64;
    const AttentionHeads heads = {.query = 4, .key_value = 4, .width = kWidth};
    const DocumentsPtr documents =
        has_documents ? make_documents({9, 1, 6, 16}, kTokens, at::kMeta) : nullptr;
    const auto backend = make_meta_backend(at::kCUDA, KernelSet::kTransformerEngine,
                                           /*streams=*/nullptr, compute_capability);
    Kernels& kernels = backend->kernels();
    const RotaryTable table =
        kernels.rotary_table(at::empty({kTokens, kWidth / 2}, meta.dtype(at::kFloat)), documents,
                             at::kFloat, at::kBFloat16);
    const ObservedCalls calls;
    kernels.attention(at::empty({kTokens, 3 * 4 * kWidth}, meta), heads, table, true);
    return calls.names_of_launches();
  };
  using Catch::Matchers::VectorContains;
  const std::string of_engine = "nvte_fused_attn_fwd";
  CHECK_THAT(launches(80, false), VectorContains(of_engine));
  CHECK_THAT(launches(90, true), VectorContains(of_engine));
  CHECK_THAT(launches(80, true), VectorContains(std::string("flash_attention")));
  CHECK_THAT(launches(70, false), VectorContains(std::string("flash_attention")));
  CHECK_THAT(launches(0, true), VectorContains(of_engine));
}

}  // namespace fsdp::transformer_engine_test
