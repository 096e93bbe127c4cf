#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/swiglu.cuh"
#include "trainer/kernels/swiglu.h"
#include "trainer/kernels/with_type.cuh"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPartBytes = 16;  // the size of one load

template <typename T, int kCount>
__global__ __launch_bounds__(kThreads) void swiglu_backward(T* dh, const T* gate_up, T* d_gate_up,
                                                            int64_t width, int64_t parts) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index < parts) swiglu_backward_part<T, kCount>(dh, gate_up, d_gate_up, width, index);
}

template <typename T, int kCount>
void start(T* dh, const T* gate_up, T* d_gate_up, int64_t rows, int64_t width,
           cudaStream_t stream) {
  const int64_t parts = rows * width / kCount;
  const int64_t blocks = (parts + kThreads - 1) / kThreads;
  start_kernel(swiglu_backward<T, kCount>, blocks, kThreads, stream, dh, gate_up, d_gate_up, width,
               parts);
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kPartBytes == 0; }

}  // namespace

cudaError_t start_swiglu_backward(void* dh, const void* gate_up, void* d_gate_up, FloatType type,
                                  int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kPartBytes / sizeof(T);
    T* const h = static_cast<T*>(dh);
    const T* const in = static_cast<const T*>(gate_up);
    T* const out = static_cast<T*>(d_gate_up);
    if (width % kCount == 0 && is_aligned(h) && is_aligned(in) && is_aligned(out)) {
      start<T, kCount>(h, in, out, rows, width, stream);
    } else {
      start<T, 1>(h, in, out, rows, width, stream);
    }
  });
}

}  // namespace fsdp
