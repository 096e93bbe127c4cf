#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace fsdp::fake_cuda {

// `error`, which cudaGetLastError() will tell this thread.
cudaError_t failed(cudaError_t error);

// What is issued on `stream` from here on waits until `is_done`, which any thread may ask.
void wait_for(cudaStream_t stream, std::function<bool()> is_done);

}  // namespace fsdp::fake_cuda
