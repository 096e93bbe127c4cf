#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/swiglu.cuh"
#include "trainer/kernels/swiglu.h"
#include "trainer/kernels/with_type.cuh"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPartBytes = 16;  // the size of one load

template <typename T, int kCount>
__global__ __launch_bounds__(kThreads) void swiglu(T* h, const T* gate_up, int64_t width,
                                                   int64_t parts) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index < parts) swiglu_part<T, kCount>(h, gate_up, width, index);
}

template <typename T, int kCount>
__global__ __launch_bounds__(kThreads) void swiglu_backward(T* dh, const T* gate_up, T* d_gate_up,
                                                            int64_t width, int64_t parts) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index < parts) swiglu_backward_part<T, kCount>(dh, gate_up, d_gate_up, width, index);
}

// Starts `wide` if all rows are aligned to its parts, else `narrow`. Both have the arguments
// `tensors`, width and number of parts.
template <int kCount, typename Kernel, typename... T>
void start(Kernel* wide, Kernel* narrow, int64_t rows, int64_t width, cudaStream_t stream,
           T*... tensors) {
  const bool is_wide = width % kCount == 0 && (is_aligned(tensors, kPartBytes) && ...);
  const int64_t parts = rows * width / (is_wide ? kCount : 1);
  const int64_t blocks = (parts + kThreads - 1) / kThreads;
  start_kernel(is_wide ? wide : narrow, blocks, kThreads, stream, tensors..., width, parts);
}

}  // namespace

cudaError_t start_swiglu(void* h, const void* gate_up, FloatType type, int64_t rows, int64_t width,
                         cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kPartBytes / sizeof(T);
    start<kCount>(swiglu<T, kCount>, swiglu<T, 1>, rows, width, stream, static_cast<T*>(h),
                  static_cast<const T*>(gate_up));
  });
}

cudaError_t start_swiglu_backward(void* dh, const void* gate_up, void* d_gate_up, FloatType type,
                                  int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kPartBytes / sizeof(T);
    start<kCount>(swiglu_backward<T, kCount>, swiglu_backward<T, 1>, rows, width, stream,
                  static_cast<T*>(dh), static_cast<const T*>(gate_up), static_cast<T*>(d_gate_up));
  });
}

}  // namespace fsdp
