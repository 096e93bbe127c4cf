#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/order.h"

namespace fsdp::fake_cuda {

// `error`, which cudaGetLastError() will tell this thread.
cudaError_t failed(cudaError_t error);

// What is issued on `stream` from here on waits until `is_done`, which any thread may ask.
void wait_for(cudaStream_t stream, std::function<bool()> is_done);

// Counts another operation of a stream, which comes after all that the calling thread has waited
// for. Returns the stream's number and what the operation comes after, itself included.
std::pair<int, Clock> tick(cudaStream_t stream);

// The names of libtorch's operations that are under way on the calling thread
// (order_observer.cpp).
std::vector<std::string>& operations();

// Adds to hazards(), or ends the program.
void add_hazard(const std::string& text);
void collect_hazards();

}  // namespace fsdp::fake_cuda
