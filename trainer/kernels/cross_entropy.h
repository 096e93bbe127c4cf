#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/kernels/float_type.h"

// Cross-entropy of rows of logits on a GPU, in place, in one kernel of a block per row; the same
// result every time. Everything between reading and writing a logit is fp32.
//
// `logits` [rows, vocabulary], contiguous, of any alignment that its type has; `labels` [rows] from
// 0 to vocabulary - 1; `losses` [rows]. All are on the current device, and stay alive until the
// kernel on `stream` has ended. Returns what starting the kernel returned.
namespace fsdp {

// losses = -log softmax(logits)[label]; logits become the gradient: probabilities, less 1 at the
// label.
cudaError_t start_cross_entropy(void* logits, FloatType type, const int64_t* labels, float* losses,
                                int64_t rows, int64_t vocabulary, cudaStream_t stream);

// losses, and the first of the most likely tokens of each row; logits are only read.
cudaError_t start_cross_entropy_evaluation(const void* logits, FloatType type,
                                           const int64_t* labels, float* losses, int64_t* tokens,
                                           int64_t rows, int64_t vocabulary, cudaStream_t stream);

}  // namespace fsdp
