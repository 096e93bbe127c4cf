#include <transformer_engine/fused_attn.h>

#include <cmath>

#include "trainer/kernels/transformer_engine.h"
#include "trainer/kernels/transformer_engine_call.h"

namespace fsdp::te {
namespace {

// Wider heads have kernels on some GPUs only.
constexpr int64_t kHeadWidthMax = 128;

constexpr NVTE_QKV_Layout kLayout = NVTE_BSHD_BSHD_BSHD;
constexpr NVTE_Bias_Type kBias = NVTE_NO_BIAS;
constexpr NVTE_Mask_Type kMask = NVTE_CAUSAL_MASK;
constexpr NVTE_Softmax_Type kSoftmax = NVTE_VANILLA_SOFTMAX;
constexpr float kDropout = 0;
constexpr int64_t kWindowLeft = -1;  // no bound
constexpr int64_t kWindowRight = 0;
constexpr bool kReturnMaxLogit = false;
constexpr bool kCudaGraph = false;
constexpr bool kBottomRightDiagonal = false;

bool is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

// Of `sequences` equally long sequences, whose offsets are not read: only the shape is.
class SequenceOffsets {
 public:
  explicit SequenceOffsets(int64_t sequences)
      : wrapper_(nullptr, std::vector<size_t>{static_cast<size_t>(sequences) + 1},
                 transformer_engine::DType::kInt32) {}
  operator NVTETensor() const { return wrapper_.data(); }

 private:
  transformer_engine::TensorWrapper wrapper_;
};

// What forward leaves to backward. The second of the two tensors is the random state of dropout,
// which is not read without it.
class AuxiliaryTensors {
 public:
  explicit AuxiliaryTensors(const at::Tensor& log_sum_exp_BHT1) {
    nvte_tensor_pack_create(&pack_);
    pack_.size = 2;
    const std::vector<size_t> shape(log_sum_exp_BHT1.sizes().begin(),
                                    log_sum_exp_BHT1.sizes().end());
    const NVTEBasicTensor data = {log_sum_exp_BHT1.data_ptr(), kNVTEFloat32,
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
                     const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp_BHT1) {
  check_shape(k_BTKW, {q_BTHW.size(0), q_BTHW.size(1), k_BTKW.size(2), q_BTHW.size(3)});
  check_shape(v_BTKW, k_BTKW.sizes());
  check_shape(out_BTHW, q_BTHW.sizes());
  check_shape(log_sum_exp_BHT1, {q_BTHW.size(0), q_BTHW.size(2), q_BTHW.size(1), 1});
  check_type(q_BTHW.scalar_type(), {k_BTKW, v_BTKW, out_BTHW});
  check_type(at::kFloat, {log_sum_exp_BHT1});
}

float scale_of(const at::Tensor& q_BTHW) {
  return 1.0F / std::sqrt(static_cast<float>(q_BTHW.size(3)));
}

// cuDNN's frontend: dq in fp32 and one sum a query; for grouped queries dk and dv of every query
// head. What its closed part adds is not known, nor what deterministic sums take.
int64_t backward_workspace_bytes(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW) {
  const int64_t queries = q_BTHW.numel() / q_BTHW.size(3);
  const bool is_grouped = q_BTHW.size(2) != k_BTKW.size(2);
  return (q_BTHW.numel() + queries) * static_cast<int64_t>(sizeof(float)) +
         (is_grouped ? 2 * q_BTHW.numel() * q_BTHW.element_size() : 0);
}

}  // namespace

bool has_causal_attention(at::ScalarType type, int64_t sequence_length, int64_t width,
                          const at::Device& device) {
  if (!at::isReducedFloatingType(type) || width % 8 != 0 || width > kHeadWidthMax) return false;
  if (!device.is_cuda()) return true;
  const NVTEDType dtype = type == at::kHalf ? kNVTEFloat16 : kNVTEBFloat16;
  const size_t length = sequence_length;
  const size_t head_width = width;
  NVTE_Fused_Attn_Backend backend = NVTE_No_Backend;
  with_torch_errors("nvte_get_fused_attn_backend", [&] {
    backend = nvte_get_fused_attn_backend(
        /*is_training=*/true, dtype, dtype, kLayout, kBias, kMask, kSoftmax, kDropout,
        /*num_attn_heads=*/1, /*num_gqa_groups=*/1, length, length, head_width, head_width,
        kWindowLeft, kWindowRight, kReturnMaxLogit, kCudaGraph, is_deterministic());
  });
  return backend == NVTE_F16_arbitrary_seqlen;
}

void causal_attention(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW,
                      const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp_BHT1,
                      bool for_backward) {
  check_attention(q_BTHW, k_BTKW, v_BTKW, out_BTHW, log_sum_exp_BHT1);
  const size_t length = q_BTHW.size(1);
  const auto attend = [&](NVTETensor workspace, cudaStream_t stream) {
    const Handle none({});
    const SequenceOffsets offsets(q_BTHW.size(0));
    AuxiliaryTensors auxiliary(log_sum_exp_BHT1);
    nvte_fused_attn_fwd(Handle(q_BTHW), Handle(k_BTKW), Handle(v_BTKW), /*Bias=*/none,
                        /*SoftmaxOffset=*/none, /*S=*/none, Handle(out_BTHW), auxiliary.get(),
                        offsets, offsets, /*cu_seqlens_q_padded=*/none,
                        /*cu_seqlens_kv_padded=*/none, /*page_table_k=*/none, /*page_table_v=*/none,
                        /*rng_state=*/none, length, length, for_backward, kReturnMaxLogit,
                        kCudaGraph, scale_of(q_BTHW), kDropout, kLayout, kBias, kMask, kSoftmax,
                        kWindowLeft, kWindowRight, kBottomRightDiagonal, workspace, stream);
  };
  run_with_workspace("nvte_fused_attn_fwd", {q_BTHW, k_BTKW, v_BTKW}, {out_BTHW, log_sum_exp_BHT1},
                     /*planned_bytes=*/1, attend);
}

void causal_attention_backward(const at::Tensor& dout_BTHW, const at::Tensor& out_BTHW,
                               const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                               const at::Tensor& v_BTKW, const at::Tensor& log_sum_exp_BHT1,
                               const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                               const at::Tensor& dv_BTKW) {
  check_attention(q_BTHW, k_BTKW, v_BTKW, out_BTHW, log_sum_exp_BHT1);
  check_attention(dq_BTHW, dk_BTKW, dv_BTKW, dout_BTHW, log_sum_exp_BHT1);
  check_type(q_BTHW.scalar_type(), {dq_BTHW});
  check_shape(dk_BTKW, k_BTKW.sizes());
  const size_t length = q_BTHW.size(1);
  const auto attend_backward = [&](NVTETensor workspace, cudaStream_t stream) {
    const Handle none({});
    const SequenceOffsets offsets(q_BTHW.size(0));
    AuxiliaryTensors auxiliary(log_sum_exp_BHT1);
    nvte_fused_attn_bwd(Handle(q_BTHW), Handle(k_BTKW), Handle(v_BTKW), Handle(out_BTHW),
                        Handle(dout_BTHW), /*S=*/none, /*dP=*/none, auxiliary.get(),
                        Handle(dq_BTHW), Handle(dk_BTKW), Handle(dv_BTKW), /*dBias=*/none,
                        /*dSoftmaxOffset=*/none, offsets, offsets, /*cu_seqlens_q_padded=*/none,
                        /*cu_seqlens_kv_padded=*/none, length, length, scale_of(q_BTHW), kDropout,
                        kLayout, kBias, kMask, kSoftmax, kWindowLeft, kWindowRight,
                        kBottomRightDiagonal, is_deterministic(), kCudaGraph, workspace, stream);
  };
  run_with_workspace(
      "nvte_fused_attn_bwd", {dout_BTHW, out_BTHW, q_BTHW, k_BTKW, v_BTKW, log_sum_exp_BHT1},
      {dq_BTHW, dk_BTKW, dv_BTKW}, backward_workspace_bytes(q_BTHW, k_BTKW), attend_backward);
}

}  // namespace fsdp::te
