#include "trainer/kernels/nf4.cuh"
#include "trainer/kernels/nf4_kernel.h"
#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/with_type.cuh"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kStoreBytes = 16;

template <typename T, int kCount>
__global__ __launch_bounds__(kThreads) void dequantize_nf4(const uint8_t* bytes, Nf4Layout layout,
                                                           T* out) {
  __shared__ float codes[16];
  if (threadIdx.x < 16) codes[threadIdx.x] = kNf4Codes[threadIdx.x];
  __syncthreads();
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index * kNf4Part < layout.numel) {
    dequantize_nf4_part<T, kCount>(bytes, layout, codes, out, index);
  }
}

}  // namespace

cudaError_t start_dequantize_nf4(const uint8_t* bytes, int64_t numel, void* out, FloatType type,
                                 cudaStream_t stream) {
  if (numel == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kStoreBytes / sizeof(T);
    const auto kernel =
        is_aligned(out, kStoreBytes) ? dequantize_nf4<T, kCount> : dequantize_nf4<T, 1>;
    const int64_t parts = (numel + kNf4Part - 1) / kNf4Part;
    start_kernel(kernel, (parts + kThreads - 1) / kThreads, kThreads, stream, bytes,
                 Nf4Layout{numel}, static_cast<T*>(out));
  });
}

}  // namespace fsdp
