#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/order.h"

namespace fsdp::fake_cuda {

// Returns `error`, and cudaGetLastError() returns it to this thread.
cudaError_t failed(cudaError_t error);

int& current_device();

// Later work on `stream`, which is one, waits until `is_done`, which any thread may call.
void wait_for(cudaStream_t stream, std::function<bool()> is_done);

// Counts an operation of a stream, after all work that the calling thread has waited for. Returns
// the stream's number and its clock, which includes the operation.
std::pair<int, Clock> tick(cudaStream_t stream);

// Returns the GPU of a stream; nullopt if it is destroyed or was never one.
std::optional<int> device_of(cudaStream_t stream);

// Returns the GPU on which all these bytes are allocated and may be accessed; nullopt if none is.
std::optional<int> device_of(const void* address, size_t bytes);

// True if FAKE_CUDA_FULL_IN names `function` for this rank.
bool is_full_in(const std::string& function);

// The names of libtorch's operations that the calling thread is in
// (order_observer.cpp).
std::vector<std::string>& operations();

// Adds to hazards(), or ends the program.
void add_hazard(const std::string& text);
void collect_hazards();

}  // namespace fsdp::fake_cuda
