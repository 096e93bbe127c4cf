#pragma once

#include <cuda_runtime_api.h>

namespace fsdp {

// Starts `blocks` blocks of `threads` threads of a kernel. Tests run kernels on the host, with
// another start_kernel (tests/fakes/emulated_kernels.h).
#ifdef __CUDACC__
template <typename... Parameters, typename... Arguments>
void start_kernel(void (*kernel)(Parameters...), int64_t blocks, int threads, cudaStream_t stream,
                  Arguments... arguments) {
  kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(arguments...);
}
#endif

}  // namespace fsdp
