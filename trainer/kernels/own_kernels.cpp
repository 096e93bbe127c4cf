// Checks the tensors of our own kernels, and launches them. Without nvcc only meta tensors come.
#include "trainer/kernels/own_kernels.h"

#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/launch.h"

// LAUNCH(name, reads, writes, call) launches a kernel by `call`, which a build without nvcc lacks.
#ifdef FSDP_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>

#include "trainer/kernels/cross_entropy.h"
#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/rotary.h"
#include "trainer/kernels/swiglu.h"
#define LAUNCH(name, reads, writes, ...) \
  launch(name, reads, writes, [&] { C10_CUDA_CHECK((__VA_ARGS__)); })
#else
#define LAUNCH(name, reads, writes, ...) \
  launch(name, reads, writes, [] { TORCH_CHECK(false, "no kernel of ", name); })
#endif

namespace fsdp::own {
namespace {

void check_swiglu(const at::Tensor& h_NF, const at::Tensor& gate_up_N2F) {
  TORCH_CHECK(h_NF.is_contiguous() && gate_up_N2F.is_contiguous(),
              "dh, gate and up should be contiguous");
  TORCH_CHECK(gate_up_N2F.size(0) == h_NF.size(0) && gate_up_N2F.size(1) == 2 * h_NF.size(1) &&
                  gate_up_N2F.scalar_type() == h_NF.scalar_type(),
              "gate and up of ", gate_up_N2F.sizes(), " for dh of ", h_NF.sizes());
}

void check_cross_entropy(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                         const at::Tensor& loss_C1) {
  TORCH_CHECK(logits_CV.is_contiguous() && labels_C1.is_contiguous() && loss_C1.is_contiguous(),
              "logits, labels and losses should be contiguous");
  TORCH_CHECK(labels_C1.numel() == logits_CV.size(0) && loss_C1.numel() == logits_CV.size(0),
              "there are ", logits_CV.size(0), " rows of logits, ", labels_C1.numel(),
              " labels and room for ", loss_C1.numel(), " losses");
}

void check_rotation(const at::Tensor& packed_BTHW, const at::Tensor& cosine,
                    const at::Tensor& sine) {
  TORCH_CHECK(packed_BTHW.is_contiguous() && cosine.is_contiguous() && sine.is_contiguous(),
              "heads, cosines and sines should be contiguous");
  const int64_t angles = packed_BTHW.size(1) * packed_BTHW.size(3) / 2;
  TORCH_CHECK(cosine.numel() == angles && sine.numel() == angles &&
                  cosine.scalar_type() == packed_BTHW.scalar_type() &&
                  sine.scalar_type() == packed_BTHW.scalar_type(),
              "cosines of ", cosine.sizes(), " and sines of ", sine.sizes(), " for heads of ",
              packed_BTHW.sizes());
}

#ifdef FSDP_CUDA_KERNELS

HeadRows rows_of(const at::Tensor& x_BTHW) {
  TORCH_CHECK(x_BTHW.stride(3) == 1, "the elements of a head should be contiguous");
  return {x_BTHW.const_data_ptr(), x_BTHW.stride(0), x_BTHW.stride(1), x_BTHW.stride(2)};
}

cudaError_t start_rotation(const at::Tensor& packed_BTHW, int64_t query_heads, Rotation rotation,
                           const at::Tensor& cosine, const at::Tensor& sine) {
  rotation.packed = packed_BTHW.mutable_data_ptr();
  rotation.cosine = cosine.const_data_ptr();
  rotation.sine = sine.const_data_ptr();
  rotation.rows = packed_BTHW.size(0) * packed_BTHW.size(1);
  rotation.tokens = packed_BTHW.size(1);
  rotation.query_heads = query_heads;
  rotation.key_value_heads = (packed_BTHW.size(2) - query_heads) / 2;
  rotation.width = packed_BTHW.size(3);
  return fsdp::start_rotation(rotation, *float_type_of(packed_BTHW), stream_of(packed_BTHW));
}

#endif

}  // namespace

bool has_kernels(const at::Tensor& like) { return float_type_of(like).has_value(); }

void swiglu(const at::Tensor& gate_up_N2F, const at::Tensor& h_NF) {
  check_swiglu(h_NF, gate_up_N2F);
  const Tensors reads{gate_up_N2F};
  const Tensors writes{h_NF};
  LAUNCH("swiglu", reads, writes,
         start_swiglu(h_NF.mutable_data_ptr(), gate_up_N2F.const_data_ptr(), *float_type_of(h_NF),
                      h_NF.size(0), h_NF.size(1), stream_of(h_NF)));
}

void swiglu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F,
                     const at::Tensor& d_gate_up_N2F) {
  check_swiglu(dh_NF, gate_up_N2F);
  const Tensors reads{dh_NF, gate_up_N2F};
  const Tensors writes{dh_NF, d_gate_up_N2F};
  LAUNCH("swiglu_backward", reads, writes,
         start_swiglu_backward(dh_NF.mutable_data_ptr(), gate_up_N2F.const_data_ptr(),
                               d_gate_up_N2F.mutable_data_ptr(), *float_type_of(dh_NF),
                               dh_NF.size(0), dh_NF.size(1), stream_of(dh_NF)));
}

void cross_entropy(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                   const at::Tensor& loss_C1) {
  check_cross_entropy(logits_CV, labels_C1, loss_C1);
  const Tensors reads{logits_CV, labels_C1};
  const Tensors writes{logits_CV, loss_C1};
  LAUNCH("cross_entropy", reads, writes,
         start_cross_entropy(logits_CV.mutable_data_ptr(), *float_type_of(logits_CV),
                             labels_C1.const_data_ptr<int64_t>(), loss_C1.mutable_data_ptr<float>(),
                             logits_CV.size(0), logits_CV.size(1), stream_of(logits_CV)));
}

void evaluate_cross_entropy(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                            const at::Tensor& loss_C1, const at::Tensor& tokens_C1) {
  check_cross_entropy(logits_CV, labels_C1, loss_C1);
  const Tensors reads{logits_CV, labels_C1};
  const Tensors writes{loss_C1, tokens_C1};
  LAUNCH("cross_entropy_evaluation", reads, writes,
         start_cross_entropy_evaluation(logits_CV.const_data_ptr(), *float_type_of(logits_CV),
                                        labels_C1.const_data_ptr<int64_t>(),
                                        loss_C1.mutable_data_ptr<float>(),
                                        tokens_C1.mutable_data_ptr<int64_t>(), logits_CV.size(0),
                                        logits_CV.size(1), stream_of(logits_CV)));
}

void rotate(const at::Tensor& packed_BTHW, int64_t query_heads, const at::Tensor& cosine,
            const at::Tensor& sine) {
  check_rotation(packed_BTHW, cosine, sine);
  const int64_t key_heads = (packed_BTHW.size(2) - query_heads) / 2;
  const at::Tensor rotated = packed_BTHW.narrow(2, 0, query_heads + key_heads);
  const Tensors reads{rotated, cosine, sine};
  const Tensors writes{rotated};
  LAUNCH("rotation", reads, writes,
         start_rotation(packed_BTHW, query_heads,
                        {.query = rows_of(packed_BTHW),
                         .key = rows_of(packed_BTHW.narrow(2, query_heads, key_heads))},
                        cosine, sine));
}

void rotate_back(const at::Tensor& packed_BTHW, const at::Tensor& query_BTHW,
                 const at::Tensor& key_BTHW, const at::Tensor& value_BTHW, const at::Tensor& cosine,
                 const at::Tensor& sine) {
  check_rotation(packed_BTHW, cosine, sine);
  const Tensors reads{query_BTHW, key_BTHW, value_BTHW, cosine, sine};
  const Tensors writes{packed_BTHW};
  LAUNCH("rotation", reads, writes,
         start_rotation(packed_BTHW, query_BTHW.size(2),
                        {.query = rows_of(query_BTHW),
                         .key = rows_of(key_BTHW),
                         .value = rows_of(value_BTHW),
                         .is_back = true},
                        cosine, sine));
}

}  // namespace fsdp::own
