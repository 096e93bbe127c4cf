#include "trainer/kernels/rotary.cuh"
#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/with_type.cuh"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPartBytes = 16;  // the size of one load

// A block rotates a row.
template <typename T, int kCount>
__global__ __launch_bounds__(kThreads) void rotate(Rotation rotation) {
  rotate_row<T, kCount>(rotation, blockIdx.x, threadIdx.x, kThreads);
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kPartBytes == 0; }

bool is_aligned(const HeadRows& rows, int64_t count) {
  return is_aligned(rows.data) && rows.sequence_stride % count == 0 &&
         rows.token_stride % count == 0 && rows.head_stride % count == 0;
}

}  // namespace

cudaError_t start_rotation(const Rotation& rotation, FloatType type, cudaStream_t stream) {
  if (rotation.rows == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kPartBytes / sizeof(T);
    const bool are_heads_aligned = is_aligned(rotation.query, kCount) &&
                                   is_aligned(rotation.key, kCount) &&
                                   is_aligned(rotation.value, kCount);
    if (rotation.width % (2 * kCount) == 0 && are_heads_aligned && is_aligned(rotation.packed) &&
        is_aligned(rotation.cosine) && is_aligned(rotation.sine)) {
      start_kernel(rotate<T, kCount>, rotation.rows, kThreads, stream, rotation);
    } else {
      start_kernel(rotate<T, 1>, rotation.rows, kThreads, stream, rotation);
    }
  });
}

}  // namespace fsdp
