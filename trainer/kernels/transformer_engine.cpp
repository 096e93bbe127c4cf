// Calls the C functions of Transformer Engine. Results go to tensors of the caller.
#include "trainer/kernels/transformer_engine.h"

#include <c10/cuda/CUDAException.h>
#include <transformer_engine/activation.h>
#include <transformer_engine/fused_rope.h>
#include <transformer_engine/normalization.h>

#include <algorithm>

#include "trainer/kernels/transformer_engine_call.h"

namespace fsdp::te {
namespace {

int multiprocessors_of(const at::Device& device) {
  int count = kPlannedMultiprocessors;
  if (device.is_cuda()) {
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device.index()));
  }
  return count;
}

// Each resident block has a partial fp32 gradient of the weight. Registers allow 2 to 6 resident
// blocks on one of Hopper's multiprocessors. The result is at least the size that an H100 requests.
int64_t rms_norm_backward_workspace_bytes(int64_t hidden_size) {
  const int64_t blocks = std::clamp<int64_t>(12288 / hidden_size, 2, 6);
  return kPlannedMultiprocessors * blocks * hidden_size * static_cast<int64_t>(sizeof(float));
}

// Transformer Engine's packed layout is [sequence, token, group, the queries, keys and values of a
// group]. Ours has one group of all heads.
struct PackedHeads {
  PackedHeads(const at::Tensor& qkv_NE, const at::Tensor& angles_TW, const at::Tensor& q_BTHW,
              const at::Tensor& k_BTKW, const at::Tensor& v_BTKW)
      : sequences(static_cast<int>(q_BTHW.size(0))),
        sequence_length(static_cast<int>(q_BTHW.size(1))),
        width(static_cast<int>(q_BTHW.size(3))),
        query(static_cast<int>(q_BTHW.size(2)) * width),
        key_value(static_cast<int>(k_BTKW.size(2)) * width) {
    check_size(qkv_NE);
    check_shape(qkv_NE, {q_BTHW.size(0) * q_BTHW.size(1), query + 2 * key_value});
    check_shape(k_BTKW, {sequences, sequence_length, k_BTKW.size(2), width});
    check_shape(v_BTKW, k_BTKW.sizes());
    check_shape(angles_TW, {sequence_length, width});
    check_type(qkv_NE.scalar_type(), {q_BTHW, k_BTKW, v_BTKW});
    check_type(at::kFloat, {angles_TW});
  }

  int sequences;
  int sequence_length;
  int width;
  int query;      // columns
  int key_value;  // columns
};

}  // namespace

void rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon,
              const at::Tensor& y_ND, const at::Tensor& reciprocal_rms_N) {
  check_size(x_ND);
  const int multiprocessors = multiprocessors_of(x_ND.device());
  // The workspace is one byte for rows of up to 8,192 elements. Longer rows also need barriers.
  run_with_workspace("nvte_rmsnorm_fwd", {x_ND, weight_D}, {y_ND, reciprocal_rms_N},
                     /*planned_bytes=*/1, [&](NVTETensor workspace, cudaStream_t stream) {
                       nvte_rmsnorm_fwd(Handle(x_ND), Handle(weight_D), static_cast<float>(epsilon),
                                        Handle(y_ND), Handle(reciprocal_rms_N), workspace,
                                        multiprocessors, /*zero_centered_gamma=*/false, stream);
                     });
}

void rms_norm_backward(const at::Tensor& dy_ND, const at::Tensor& x_ND,
                       const at::Tensor& reciprocal_rms_N, const at::Tensor& weight_D,
                       const at::Tensor& residual_ND, const at::Tensor& dx_ND,
                       const at::Tensor& dweight_D) {
  check_size(x_ND);
  check_shape(reciprocal_rms_N, {x_ND.size(0)});
  const int multiprocessors = multiprocessors_of(x_ND.device());
  const auto backward = [&](NVTETensor workspace, cudaStream_t stream) {
    if (residual_ND.defined()) {
      nvte_rmsnorm_bwd_add(Handle(dy_ND), Handle(x_ND), Handle(residual_ND),
                           Handle(reciprocal_rms_N), Handle(weight_D), Handle(dx_ND),
                           Handle(dweight_D), workspace, multiprocessors,
                           /*zero_centered_gamma=*/false, stream);
    } else {
      nvte_rmsnorm_bwd(Handle(dy_ND), Handle(x_ND), Handle(reciprocal_rms_N), Handle(weight_D),
                       Handle(dx_ND), Handle(dweight_D), workspace, multiprocessors,
                       /*zero_centered_gamma=*/false, stream);
    }
  };
  run_with_workspace(residual_ND.defined() ? "nvte_rmsnorm_bwd_add" : "nvte_rmsnorm_bwd",
                     {dy_ND, x_ND, reciprocal_rms_N, weight_D, residual_ND}, {dx_ND, dweight_D},
                     rms_norm_backward_workspace_bytes(weight_D.size(0)), backward);
}

void swiglu(const at::Tensor& gate_up_N2F, const at::Tensor& h_NF) {
  check_shape(h_NF, {gate_up_N2F.size(0), gate_up_N2F.size(1) / 2});
  check_type(gate_up_N2F.scalar_type(), {h_NF});
  run("nvte_swiglu", {gate_up_N2F}, {h_NF},
      [&](cudaStream_t stream) { nvte_swiglu(Handle(gate_up_N2F), Handle(h_NF), stream); });
}

void swiglu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F,
                     const at::Tensor& d_gate_up_N2F) {
  check_type(gate_up_N2F.scalar_type(), {d_gate_up_N2F});
  run("nvte_dswiglu", {dh_NF, gate_up_N2F}, {d_gate_up_N2F}, [&](cudaStream_t stream) {
    nvte_dswiglu(Handle(dh_NF), Handle(gate_up_N2F), Handle(d_gate_up_N2F), stream);
  });
}

void split_and_rotate(const at::Tensor& qkv_NE, const at::Tensor& angles_TW,
                      const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                      const at::Tensor& v_BTKW) {
  const PackedHeads heads(qkv_NE, angles_TW, q_BTHW, k_BTKW, v_BTKW);
  run("nvte_fused_qkv_rope_forward", {qkv_NE, angles_TW}, {q_BTHW, k_BTKW, v_BTKW},
      [&](cudaStream_t stream) {
        nvte_fused_qkv_rope_forward(
            Handle(qkv_NE), Handle(angles_TW), Handle(angles_TW), /*start_positions=*/Handle({}),
            Handle(q_BTHW), Handle(k_BTKW), Handle(v_BTKW), NVTE_BSHD, /*interleaved=*/false,
            /*cp_size=*/1, /*cp_rank=*/0, heads.sequence_length, heads.sequences, /*h=*/1,
            heads.width, heads.width, heads.query, heads.key_value, heads.key_value, stream);
      });
}

void join_and_rotate_back(const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                          const at::Tensor& dv_BTKW, const at::Tensor& angles_TW,
                          const at::Tensor& dqkv_NE) {
  const PackedHeads heads(dqkv_NE, angles_TW, dq_BTHW, dk_BTKW, dv_BTKW);
  run("nvte_fused_qkv_rope_backward", {dq_BTHW, dk_BTKW, dv_BTKW, angles_TW}, {dqkv_NE},
      [&](cudaStream_t stream) {
        nvte_fused_qkv_rope_backward(
            Handle(dq_BTHW), Handle(dk_BTKW), Handle(dv_BTKW), Handle(angles_TW), Handle(angles_TW),
            Handle(dqkv_NE), NVTE_BSHD, /*interleaved=*/false, /*cp_size=*/1, /*cp_rank=*/0,
            heads.sequence_length, heads.sequences, /*h=*/1, heads.width, heads.width, heads.query,
            heads.key_value, heads.key_value, stream);
      });
}

}  // namespace fsdp::te
