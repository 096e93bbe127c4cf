#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>

#include <optional>
#include <utility>

#include "trainer/kernels/cross_entropy.h"
#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/launch.h"

// `Base`, a set of kernels for GPUs, with the cross-entropy of cross_entropy.h for 16-bit and
// 32-bit logits. Base handles other logits.
namespace fsdp {

template <typename Base>
class CrossEntropyKernels : public Base {
 public:
  using Base::Base;

  void cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                     at::Tensor loss_C1) override {
    const std::optional<FloatType> type = float_type_of(logits_CV);
    if (!type) return Base::cross_entropy(std::move(logits_CV), labels_C1, loss_C1);
    check(logits_CV, labels_C1, loss_C1);
    launch("cross_entropy", {logits_CV, labels_C1}, {logits_CV, loss_C1}, [&] {
      C10_CUDA_CHECK(start_cross_entropy(logits_CV.data_ptr(), *type,
                                         labels_C1.const_data_ptr<int64_t>(),
                                         loss_C1.mutable_data_ptr<float>(), logits_CV.size(0),
                                         logits_CV.size(1), stream_of(logits_CV)));
    });
  }

  at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                    at::Tensor loss_C1) override {
    const std::optional<FloatType> type = float_type_of(logits_CV);
    if (!type) return Base::evaluate_cross_entropy(std::move(logits_CV), labels_C1, loss_C1);
    check(logits_CV, labels_C1, loss_C1);
    at::Tensor tokens_C1 = at::empty(labels_C1.sizes(), labels_C1.options());
    launch("cross_entropy_evaluation", {logits_CV, labels_C1}, {loss_C1, tokens_C1}, [&] {
      C10_CUDA_CHECK(start_cross_entropy_evaluation(
          logits_CV.const_data_ptr(), *type, labels_C1.const_data_ptr<int64_t>(),
          loss_C1.mutable_data_ptr<float>(), tokens_C1.mutable_data_ptr<int64_t>(),
          logits_CV.size(0), logits_CV.size(1), stream_of(logits_CV)));
    });
    return tokens_C1;
  }

 private:
  static void check(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                    const at::Tensor& loss_C1) {
    TORCH_CHECK(logits_CV.is_contiguous() && labels_C1.is_contiguous() && loss_C1.is_contiguous(),
                "logits, labels and losses should be contiguous");
    TORCH_CHECK(labels_C1.numel() == logits_CV.size(0) && loss_C1.numel() == logits_CV.size(0),
                "there are ", logits_CV.size(0), " rows of logits, ", labels_C1.numel(),
                " labels and room for ", loss_C1.numel(), " losses");
  }
};

}  // namespace fsdp
