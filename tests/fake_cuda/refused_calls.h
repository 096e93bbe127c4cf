// Calls that break a rule of a GPU's libraries, and what must be said.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "tests/fake_cuda/gpu_allocations.h"
#include "tests/trainer/error_of.h"

namespace fsdp {

struct Break {
  const char* name;
  std::function<void()> call;
  const char* refusal;
};

inline const at::Device kHere(at::kCUDA, kGpu);
inline const at::Device kThere(at::kCUDA, kOtherGpu);

inline at::Tensor floats(at::IntArrayRef shape, at::Device device = kHere) {
  return at::zeros(shape, at::TensorOptions(at::kFloat).device(device));
}

inline void check_refusals(const std::vector<Break>& breaks) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const c10::DeviceGuard guard(kHere);
  for (const Break& each : breaks) {
    CAPTURE(each.name);
    CHECK_THAT(error_of(each.call), Catch::Matchers::Contains(each.refusal));
    cudaGetLastError();
  }
}

// A stream of `gpu`.
inline cudaStream_t stream_of(int gpu) {
  const c10::DeviceGuard guard(c10::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu)));
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  return stream;
}

inline cudaStream_t destroyed_stream() {
  cudaStream_t stream = stream_of(kGpu);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  return stream;
}

}  // namespace fsdp
