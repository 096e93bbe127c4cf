#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/kernels/float_type.h"

// Cross-entropy of rows of logits on a GPU, in place, in one kernel with a block per row. The
// result is the same every time. Everything between reading and writing a logit is fp32.
//
// `logits` [rows, vocabulary] is contiguous and needs no alignment beyond its type's. `labels`
// [rows] are from 0 to vocabulary - 1; `losses` is [rows]. All are on the current device, and stay
// alive until the kernel on `stream` has ended. Returns the result of starting the kernel.
namespace fsdp {

// Computes losses = -log softmax(logits)[label]. The logits become the gradient: probabilities,
// minus 1 at the label.
cudaError_t start_cross_entropy(void* logits, FloatType type, const int64_t* labels, float* losses,
                                int64_t rows, int64_t vocabulary, cudaStream_t stream);

// Computes losses and the first most likely token of each row; only reads the logits.
cudaError_t start_cross_entropy_evaluation(const void* logits, FloatType type,
                                           const int64_t* labels, float* losses, int64_t* tokens,
                                           int64_t rows, int64_t vocabulary, cudaStream_t stream);

}  // namespace fsdp
