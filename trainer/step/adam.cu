#include "trainer/kernels/start_kernel.cuh"
#include "trainer/kernels/state_block.h"
#include "trainer/step/adam.cuh"
#include "trainer/step/adam_kernel.h"
#include "trainer/step/block_codes.cuh"

namespace fsdp {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 2048;  // limited, because each block computes the factors
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

constexpr int kWarpThreads = 32;
constexpr int kWarps = kThreads / kWarpThreads;
constexpr int kPartItems = 4;  // elements that one thread loads together
constexpr int kParts = kStateBlock / (kWarpThreads * kPartItems);

// A thread block's copy of a table. It has no constructor, so it can be __shared__.
struct alignas(16) SharedCodes {
  uint32_t words[sizeof(BlockCodes) / sizeof(uint32_t)];

  __device__ void copy(const BlockCodes& table) {
    const auto* from = reinterpret_cast<const uint32_t*>(&table);
    constexpr int kWords = sizeof(BlockCodes) / sizeof(uint32_t);
    for (int i = threadIdx.x; i < kWords; i += kThreads) words[i] = from[i];
  }
  __device__ const BlockCodes& get() const { return reinterpret_cast<const BlockCodes&>(words); }
};

// Returns the largest absolute value of a warp's state block to all its lanes. Compares bits, as
// the CPU does.
__device__ float absmax_of_warp(const float (&values)[kParts * kPartItems]) {
  constexpr unsigned kAllLanes = 0xffffffff;
  uint32_t largest = 0;
  const auto take = [&](uint32_t bits) { largest = bits > largest ? bits : largest; };
  for (const float value : values) take(bits_of(value) & 0x7fffffff);
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    take(__shfl_xor_sync(kAllLanes, largest, distance));
  }
  float absmax = 0;
  memcpy(&absmax, &largest, sizeof(absmax));
  return absmax;
}

// Quantizes one moment of a warp's state block.
__device__ void quantize_block(const float (&values)[kParts * kPartItems], const BlockCodes& table,
                               const QuantizedMoment& moment, int64_t block, int lane) {
  const float absmax = absmax_of_warp(values);
  const float inverse = 1 / absmax;
  for (int part = 0; part < kParts; ++part) {
    Pack<uint8_t, kPartItems> codes;
    for (int i = 0; i < kPartItems; ++i) {
      codes.items[i] = table.code_of(values[part * kPartItems + i] * inverse);
    }
    const int64_t begin = block * kStateBlock + (part * kWarpThreads + lane) * kPartItems;
    *reinterpret_cast<Pack<uint8_t, kPartItems>*>(moment.codes + begin) = codes;
  }
  if (lane == 0) moment.absmax[block] = absmax;
}

// Each warp steps one state block at a time.
template <typename Parameter>
__global__ __launch_bounds__(kThreads) void quantized_adam(QuantizedAdamTensors tensors,
                                                           AdamSettings settings,
                                                           AdamRounding rounding,
                                                           AdamNumbers numbers) {
  using Parameters = Pack<Parameter, kPartItems>;
  using Codes = Pack<uint8_t, kPartItems>;
  __shared__ AdamFactors factors;
  __shared__ SharedCodes first_codes;
  __shared__ SharedCodes second_codes;
  if (numbers.skip != nullptr && *numbers.skip == 1) return;
  if (threadIdx.x == 0) factors = adam_factors(settings, *numbers.step);
  first_codes.copy(kFirstMomentCodes);
  second_codes.copy(kSecondMomentCodes);
  __syncthreads();
  const BlockCodes& first_table = first_codes.get();
  const BlockCodes& second_table = second_codes.get();
  const float divisor = numbers.divisor == nullptr ? 1 : *numbers.divisor;
  const int lane = threadIdx.x % kWarpThreads;
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  const int64_t blocks = tensors.size / kStateBlock;
  for (int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads; block < blocks;
       block += stride) {
    const float first_absmax = tensors.first_moment.absmax[block];
    const float second_absmax = tensors.second_moment.absmax[block];
    float first[kParts * kPartItems];
    float second[kParts * kPartItems];
    for (int part = 0; part < kParts; ++part) {
      const int64_t begin = block * kStateBlock + (part * kWarpThreads + lane) * kPartItems;
      auto& parameters =
          *reinterpret_cast<Parameters*>(static_cast<Parameter*>(tensors.parameters) + begin);
      const auto gradient = *reinterpret_cast<const Parameters*>(
          static_cast<const Parameter*>(tensors.gradient) + begin);
      const auto m = *reinterpret_cast<const Codes*>(tensors.first_moment.codes + begin);
      const auto v = *reinterpret_cast<const Codes*>(tensors.second_moment.codes + begin);
      Parameters p = parameters;
      for (int i = 0; i < kPartItems; ++i) {
        AdamElement element{float_of(p.items[i]),
                            rounded_product(first_table.values[m.items[i]], first_absmax),
                            rounded_product(second_table.values[v.items[i]], second_absmax)};
        element.step(float_of(gradient.items[i]) / divisor, factors);
        const uint64_t draw =
            rounding.is_random ? splitmix64(rounding.key, rounding.first_element + begin + i) : 0;
        put(element.parameter, p.items[i], rounding.is_random, draw, 0);
        first[part * kPartItems + i] = element.first_moment;
        second[part * kPartItems + i] = element.second_moment;
      }
      parameters = p;
    }
    quantize_block(first, first_table, tensors.first_moment, block, lane);
    quantize_block(second, second_table, tensors.second_moment, block, lane);
  }
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
  if (!tensors.has_bfloat16_parameters && !tensors.has_bfloat16_state) {
    start<float, float>(tensors, settings, rounding, numbers, stream);
  } else if (!tensors.has_bfloat16_parameters) {
    start<float, Bfloat16Bits>(tensors, settings, rounding, numbers, stream);
  } else if (tensors.has_bfloat16_state) {
    start<Bfloat16Bits, Bfloat16Bits>(tensors, settings, rounding, numbers, stream);
  } else {
    start<Bfloat16Bits, float>(tensors, settings, rounding, numbers, stream);
  }
  return cudaGetLastError();
}

cudaError_t start_quantized_adam(const QuantizedAdamTensors& tensors, const AdamSettings& settings,
                                 const AdamRounding& rounding, const AdamNumbers& numbers,
                                 cudaStream_t stream) {
  if (tensors.size == 0) return cudaSuccess;
  const int64_t needed = (tensors.size / kStateBlock + kWarps - 1) / kWarps;
  const int64_t blocks = needed < kMostBlocks ? needed : kMostBlocks;
  const auto kernel =
      tensors.has_bfloat16_parameters ? quantized_adam<Bfloat16Bits> : quantized_adam<float>;
  start_kernel(kernel, blocks, kThreads, stream, tensors, settings, rounding, numbers);
  return cudaGetLastError();
}

}  // namespace fsdp
