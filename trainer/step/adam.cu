#include "trainer/kernels/start_kernel.cuh"
#include "trainer/step/adam.cuh"
#include "trainer/step/adam_kernel.h"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 2048;  // each block computes the factors once
constexpr int64_t kPartBytes = 16;     // the size of one load of the wider type

template <typename Parameter, typename State, int kCount>
__global__ __launch_bounds__(kThreads) void adam(AdamTensors tensors, AdamSettings settings,
                                                 AdamRounding rounding, AdamNumbers numbers) {
  __shared__ AdamFactors factors;
  if (numbers.skip != nullptr && *numbers.skip == 1) return;
  if (threadIdx.x == 0) factors = adam_factors(settings, *numbers.step);
  __syncthreads();
  const float divisor = numbers.divisor == nullptr ? 1 : *numbers.divisor;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t parts = tensors.size / kCount;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < parts; i += stride) {
    step_adam_part<Parameter, State, kCount>(
        static_cast<Parameter*>(tensors.parameters),
        static_cast<const Parameter*>(tensors.gradient), static_cast<State*>(tensors.first_moment),
        static_cast<State*>(tensors.second_moment), factors, divisor, rounding, i);
  }
}

bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

template <typename Parameter, typename State>
void start(const AdamTensors& tensors, const AdamSettings& settings, const AdamRounding& rounding,
           const AdamNumbers& numbers, cudaStream_t stream) {
  constexpr int kWidest = sizeof(Parameter) > sizeof(State) ? sizeof(Parameter) : sizeof(State);
  constexpr int kCount = kPartBytes / kWidest;
  const bool is_in_parts = tensors.size % kCount == 0 &&
                           is_aligned(tensors.parameters, kCount * sizeof(Parameter)) &&
                           is_aligned(tensors.gradient, kCount * sizeof(Parameter)) &&
                           is_aligned(tensors.first_moment, kCount * sizeof(State)) &&
                           is_aligned(tensors.second_moment, kCount * sizeof(State));
  const int64_t parts = is_in_parts ? tensors.size / kCount : tensors.size;
  const int64_t needed = (parts + kThreads - 1) / kThreads;
  const int64_t blocks = needed < kMostBlocks ? needed : kMostBlocks;
  const auto kernel = is_in_parts ? adam<Parameter, State, kCount> : adam<Parameter, State, 1>;
  start_kernel(kernel, blocks, kThreads, stream, tensors, settings, rounding, numbers);
}

}  // namespace

cudaError_t start_adam(const AdamTensors& tensors, const AdamSettings& settings,
                       const AdamRounding& rounding, const AdamNumbers& numbers,
                       cudaStream_t stream) {
  if (tensors.size == 0) return cudaSuccess;
  if (!tensors.has_bfloat16_parameters) {
    start<float, Bfloat16Bits>(tensors, settings, rounding, numbers, stream);
  } else if (tensors.has_bfloat16_state) {
    start<Bfloat16Bits, Bfloat16Bits>(tensors, settings, rounding, numbers, stream);
  } else {
    start<Bfloat16Bits, float>(tensors, settings, rounding, numbers, stream);
  }
  return cudaGetLastError();
}

}  // namespace fsdp
