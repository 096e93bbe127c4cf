// Calls the attention of Transformer Engine, which is cuDNN's.
#include <transformer_engine/fused_attn.h>

#include <cmath>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/transformer_engine.h"
#include "trainer/kernels/transformer_engine_call.h"

namespace fsdp::te {
namespace {

// Wider heads have kernels on some GPUs only.
constexpr int64_t kHeadWidthMax = 128;

constexpr NVTE_Bias_Type kBias = NVTE_NO_BIAS;
constexpr NVTE_Softmax_Type kSoftmax = NVTE_VANILLA_SOFTMAX;
constexpr float kDropout = 0;
constexpr int64_t kNoBound = -1;
constexpr int64_t kWindowRight = 0;
constexpr bool kReturnMaxLogit = false;
constexpr bool kCudaGraph = false;
constexpr bool kBottomRightDiagonal = false;

bool is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

NVTE_QKV_Layout layout_of(const Documents* documents) {
  return documents != nullptr ? NVTE_THD_THD_THD : NVTE_BSHD_BSHD_BSHD;
}

NVTE_Mask_Type mask_of(const Documents* documents) {
  return documents != nullptr ? NVTE_PADDING_CAUSAL_MASK : NVTE_CAUSAL_MASK;
}

// The bounds of attention: equally long sequences, or documents.
class Sequences {
 public:
  // For equally long sequences, only the shape of the offsets is read.
  Sequences(const at::Tensor& q_BTHW, const Documents* documents)
      : documents_(documents),
        longest_(documents != nullptr ? documents->longest : q_BTHW.size(1)),
        offsets_(documents != nullptr ? documents->starts_on_device.data_ptr() : nullptr,
                 std::vector<size_t>{static_cast<size_t>(
                     documents != nullptr ? documents->count() + 1 : q_BTHW.size(0) + 1)},
                 transformer_engine::DType::kInt32) {}

  size_t longest() const { return longest_; }
  NVTETensor offsets() const { return offsets_.data(); }
  // Returns where documents begin in memory: at their offsets, because there is no padding.
  NVTETensor padded_offsets() const { return documents_ != nullptr ? offsets() : none_; }
  // Returns a handle of queries, keys or values: [B, T, heads, W], for documents [N, heads, W].
  Handle of(const at::Tensor& x_BTHW) const {
    return Handle(documents_ != nullptr ? x_BTHW.flatten(0, 1) : x_BTHW);
  }

 private:
  const Documents* documents_;
  size_t longest_;
  transformer_engine::TensorWrapper offsets_;
  Handle none_{at::Tensor()};
};

// The tensors that forward passes to backward. The second one is the random state of dropout, which
// is not read without dropout.
class AuxiliaryTensors {
 public:
  explicit AuxiliaryTensors(const at::Tensor& log_sum_exp) {
    nvte_tensor_pack_create(&pack_);
    pack_.size = 2;
    const std::vector<size_t> shape(log_sum_exp.sizes().begin(), log_sum_exp.sizes().end());
    const NVTEBasicTensor data = {log_sum_exp.data_ptr(), kNVTEFloat32,
                                  nvte_make_shape(shape.data(), shape.size())};
    nvte_set_tensor_param_v2(pack_.tensors[0], kNVTERowwiseData, &data, sizeof(data));
  }
  ~AuxiliaryTensors() { nvte_tensor_pack_destroy(&pack_); }
  AuxiliaryTensors(const AuxiliaryTensors&) = delete;
  AuxiliaryTensors& operator=(const AuxiliaryTensors&) = delete;

  NVTETensorPack* get() { return &pack_; }

 private:
  NVTETensorPack pack_;
};

void check_attention(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW,
                     const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp,
                     const Documents* documents) {
  if (documents != nullptr) {
    check_shape(q_BTHW, {1, documents->token_count(), q_BTHW.size(2), q_BTHW.size(3)});
    check_shape(documents->starts_on_device, {documents->count() + 1});
    check_type(at::kInt, {documents->starts_on_device});
  }
  check_shape(k_BTKW, {q_BTHW.size(0), q_BTHW.size(1), k_BTKW.size(2), q_BTHW.size(3)});
  check_shape(v_BTKW, k_BTKW.sizes());
  check_shape(out_BTHW, q_BTHW.sizes());
  check_shape(log_sum_exp, log_sum_exp_shape(q_BTHW.sizes(), documents));
  check_type(q_BTHW.scalar_type(), {k_BTKW, v_BTKW, out_BTHW});
  check_type(at::kFloat, {log_sum_exp});
}

int64_t window_left(int64_t window) { return window > 0 ? window - 1 : kNoBound; }

float scale_of(const at::Tensor& q_BTHW) {
  return 1.0F / std::sqrt(static_cast<float>(q_BTHW.size(3)));
}

// Returns the number of tokens for which cuDNN makes a plan, with documents. Transformer Engine
// rounds the number up, so that most batches need no new plan.
int64_t planned_tokens(int64_t tokens) {
  constexpr int64_t kStep = 1 << 15;
  int64_t planned = 1 << 10;
  while (planned < tokens && planned < kStep) planned *= 2;
  return planned >= tokens ? planned : (tokens + kStep - 1) / kStep * kStep;
}

// Returns the memory that cuDNN's open-source frontend asks for: dq in fp32 and one sum per query.
// Grouped queries add dk and dv of every query head. The memory of cuDNN's closed-source part and
// of deterministic sums is unknown. The offsets of documents, a few kB, are not counted.
int64_t backward_workspace_bytes(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                                 const Documents* documents) {
  const int64_t tokens = q_BTHW.size(0) * q_BTHW.size(1);
  const int64_t queries = (documents != nullptr ? planned_tokens(tokens) : tokens) * q_BTHW.size(2);
  const int64_t elements = queries * q_BTHW.size(3);
  const bool is_grouped = q_BTHW.size(2) != k_BTKW.size(2);
  return (elements + queries) * static_cast<int64_t>(sizeof(float)) +
         (is_grouped ? 2 * elements * q_BTHW.element_size() : 0);
}

}  // namespace

std::vector<int64_t> log_sum_exp_shape(at::IntArrayRef query_BTHW, const Documents* documents) {
  if (documents != nullptr) return {query_BTHW[1], query_BTHW[2], 1};
  return {query_BTHW[0], query_BTHW[2], query_BTHW[1], 1};
}

// Asks for kernels with grouped queries: with documents, these need cuDNN 9.6, as does the above
// shape.
bool has_causal_attention(at::ScalarType type, int64_t sequence_length, int64_t width,
                          const Documents* documents, const at::Device& device,
                          int capability_major) {
  if (!at::isReducedFloatingType(type) || width % 8 != 0 || width > kHeadWidthMax) return false;
  if (!device.is_cuda()) return capability_major >= (documents != nullptr ? kHopper : kAmpere);
  const NVTEDType dtype = type == at::kHalf ? kNVTEFloat16 : kNVTEBFloat16;
  const size_t length = documents != nullptr ? documents->longest : sequence_length;
  const size_t head_width = width;
  NVTE_Fused_Attn_Backend backend = NVTE_No_Backend;
  with_torch_errors("nvte_get_fused_attn_backend", [&] {
    backend = nvte_get_fused_attn_backend(
        /*is_training=*/true, dtype, dtype, layout_of(documents), kBias, mask_of(documents),
        kSoftmax, kDropout, /*num_attn_heads=*/2,
        /*num_gqa_groups=*/1, length, length, head_width, head_width, kNoBound, kWindowRight,
        kReturnMaxLogit, kCudaGraph, is_deterministic());
  });
  return backend == NVTE_F16_arbitrary_seqlen;
}

void causal_attention(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW,
                      const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp,
                      const Documents* documents, int64_t window, bool for_backward) {
  check_attention(q_BTHW, k_BTKW, v_BTKW, out_BTHW, log_sum_exp, documents);
  const auto attend = [&](NVTETensor workspace, cudaStream_t stream) {
    const Handle none({});
    const Sequences sequences(q_BTHW, documents);
    AuxiliaryTensors auxiliary(log_sum_exp);
    nvte_fused_attn_fwd(sequences.of(q_BTHW), sequences.of(k_BTKW), sequences.of(v_BTKW),
                        /*Bias=*/none, /*SoftmaxOffset=*/none, /*S=*/none, sequences.of(out_BTHW),
                        auxiliary.get(), sequences.offsets(), sequences.offsets(),
                        sequences.padded_offsets(), sequences.padded_offsets(),
                        /*page_table_k=*/none, /*page_table_v=*/none, /*rng_state=*/none,
                        sequences.longest(), sequences.longest(), for_backward, kReturnMaxLogit,
                        kCudaGraph, scale_of(q_BTHW), kDropout, layout_of(documents), kBias,
                        mask_of(documents), kSoftmax, window_left(window), kWindowRight,
                        kBottomRightDiagonal, workspace, stream);
  };
  run_with_workspace("nvte_fused_attn_fwd", {q_BTHW, k_BTKW, v_BTKW}, {out_BTHW, log_sum_exp},
                     /*planned_bytes=*/1, attend);
}

void causal_attention_backward(const at::Tensor& dout_BTHW, const at::Tensor& out_BTHW,
                               const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                               const at::Tensor& v_BTKW, const at::Tensor& log_sum_exp,
                               const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                               const at::Tensor& dv_BTKW, const Documents* documents,
                               int64_t window) {
  check_attention(q_BTHW, k_BTKW, v_BTKW, out_BTHW, log_sum_exp, documents);
  check_attention(dq_BTHW, dk_BTKW, dv_BTKW, dout_BTHW, log_sum_exp, documents);
  check_type(q_BTHW.scalar_type(), {dq_BTHW});
  check_shape(dk_BTKW, k_BTKW.sizes());
  const auto attend_backward = [&](NVTETensor workspace, cudaStream_t stream) {
    const Handle none({});
    const Sequences sequences(q_BTHW, documents);
    AuxiliaryTensors auxiliary(log_sum_exp);
    nvte_fused_attn_bwd(
        sequences.of(q_BTHW), sequences.of(k_BTKW), sequences.of(v_BTKW), sequences.of(out_BTHW),
        sequences.of(dout_BTHW), /*S=*/none, /*dP=*/none, auxiliary.get(), sequences.of(dq_BTHW),
        sequences.of(dk_BTKW), sequences.of(dv_BTKW), /*dBias=*/none, /*dSoftmaxOffset=*/none,
        sequences.offsets(), sequences.offsets(), sequences.padded_offsets(),
        sequences.padded_offsets(), sequences.longest(), sequences.longest(), scale_of(q_BTHW),
        kDropout, layout_of(documents), kBias, mask_of(documents), kSoftmax, window_left(window),
        kWindowRight, kBottomRightDiagonal, is_deterministic(), kCudaGraph, workspace, stream);
  };
  run_with_workspace("nvte_fused_attn_bwd",
                     {dout_BTHW, out_BTHW, q_BTHW, k_BTKW, v_BTKW, log_sum_exp},
                     {dq_BTHW, dk_BTKW, dv_BTKW},
                     backward_workspace_bytes(q_BTHW, k_BTKW, documents), attend_backward);
}

}  // namespace fsdp::te
