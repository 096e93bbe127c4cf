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

bool are_aligned(const HeadRows& rows, int64_t count) {
  return is_aligned(rows.data, kPartBytes) && rows.sequence_stride % count == 0 &&
         rows.token_stride % count == 0 && rows.head_stride % count == 0;
}

}  // namespace

cudaError_t start_rotation(const Rotation& rotation, FloatType type, cudaStream_t stream) {
  if (rotation.rows == 0) return cudaSuccess;
  return with_type(type, [&](auto* like) {
    using T = std::remove_pointer_t<decltype(like)>;
    constexpr int kCount = kPartBytes / sizeof(T);
    const bool is_wide =
        rotation.width % (2 * kCount) == 0 && are_aligned(rotation.query, kCount) &&
        are_aligned(rotation.key, kCount) && are_aligned(rotation.value, kCount) &&
        is_aligned(rotation.packed, kPartBytes) && is_aligned(rotation.cosine, kPartBytes) &&
        is_aligned(rotation.sine, kPartBytes);
    const auto kernel = is_wide ? rotate<T, kCount> : rotate<T, 1>;
    start_kernel(kernel, rotation.rows, kThreads, stream, rotation);
  });
}

}  // namespace fsdp
