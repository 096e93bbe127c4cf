#include "trainer/kernels/cross_entropy.cuh"
#include "trainer/kernels/cross_entropy.h"
#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/with_type.cuh"

namespace fsdp {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpThreads;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kBlocksPerMultiprocessor = 2;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int kBlocksPerMultiprocessor = 3;  // 1,536 threads
#else
constexpr int kBlocksPerMultiprocessor = 4;  // 2,048 threads
#endif

__device__ SoftmaxSum from_lane(const SoftmaxSum& value, int distance) {
  constexpr unsigned kAllLanes = 0xffffffff;
  return {__shfl_xor_sync(kAllLanes, value.largest, distance),
          __shfl_xor_sync(kAllLanes, value.sum, distance)};
}

__device__ LargestLogit from_lane(const LargestLogit& value, int distance) {
  constexpr unsigned kAllLanes = 0xffffffff;
  return {__shfl_xor_sync(kAllLanes, value.logit, distance),
          __shfl_xor_sync(kAllLanes, value.token, distance)};
}

// Gives every thread the sum of all values. `shared` [kWarps] is free after the next __syncthreads.
template <typename Value>
__device__ Value add_over_block(Value value, Value* shared) {
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value.add(from_lane(value, distance));
  }
  if (threadIdx.x % kWarpThreads == 0) shared[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < kWarps; ++warp) value.add(shared[warp]);
  return value;
}

// Memory for a block's values. They have initialisers, so they cannot be __shared__ themselves.
template <typename Value>
struct alignas(Value) SharedValues {
  char bytes[kWarps * sizeof(Value)];
  __device__ Value* get() { return reinterpret_cast<Value*>(bytes); }
};

template <typename Logit>
__global__ __launch_bounds__(kThreads, kBlocksPerMultiprocessor) void cross_entropy(
    Logit* logits, const int64_t* labels, float* losses, int64_t vocabulary) {
  __shared__ SharedValues<SoftmaxSum> shared;
  Logit* row = logits + blockIdx.x * vocabulary;
  const int64_t label = labels[blockIdx.x];
  const float label_logit = static_cast<float>(row[label]);  // before any thread writes

  const SoftmaxSum sum =
      add_over_block(softmax_sum(row, vocabulary, threadIdx.x, kThreads), shared.get());
  write_probabilities(row, vocabulary, threadIdx.x, kThreads, sum);
  __syncthreads();
  if (threadIdx.x == 0) {
    row[label] = static_cast<Logit>(sum.probability(label_logit) - 1);
    losses[blockIdx.x] = sum.loss(label_logit);
  }
}

template <typename Logit>
__global__ __launch_bounds__(kThreads, kBlocksPerMultiprocessor) void cross_entropy_evaluation(
    const Logit* logits, const int64_t* labels, float* losses, int64_t* tokens,
    int64_t vocabulary) {
  __shared__ SharedValues<SoftmaxSum> shared_sums;
  __shared__ SharedValues<LargestLogit> shared_logits;
  Logit* row = const_cast<Logit*>(logits) + blockIdx.x * vocabulary;

  const SoftmaxSum sum =
      add_over_block(softmax_sum(row, vocabulary, threadIdx.x, kThreads), shared_sums.get());
  const LargestLogit largest =
      add_over_block(largest_logit(row, vocabulary, threadIdx.x, kThreads), shared_logits.get());
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = sum.loss(static_cast<float>(row[labels[blockIdx.x]]));
    tokens[blockIdx.x] = largest.token;
  }
}

}  // namespace

cudaError_t start_cross_entropy(void* logits, FloatType type, const int64_t* labels, float* losses,
                                int64_t rows, int64_t vocabulary, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using Logit = std::remove_pointer_t<decltype(like)>;
    start_kernel(cross_entropy<Logit>, rows, kThreads, stream, static_cast<Logit*>(logits), labels,
                 losses, vocabulary);
  });
}

cudaError_t start_cross_entropy_evaluation(const void* logits, FloatType type,
                                           const int64_t* labels, float* losses, int64_t* tokens,
                                           int64_t rows, int64_t vocabulary, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using Logit = std::remove_pointer_t<decltype(like)>;
    start_kernel(cross_entropy_evaluation<Logit>, rows, kThreads, stream,
                 static_cast<const Logit*>(logits), labels, losses, tokens, vocabulary);
  });
}

}  // namespace fsdp
