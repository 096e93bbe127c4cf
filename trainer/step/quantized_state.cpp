// Converts optimizer state between fp32 and 8 bits. All CPUs give the same bits.
#include "trainer/step/quantized_state.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "trainer/kernels/launch.h"
#include "trainer/kernels/state_block.h"
#include "trainer/memory/zero_pages.h"
#include "trainer/step/block_codes.cuh"

namespace fsdp {
namespace {

struct Blocks {
  const BlockCodes& table;
  uint8_t* codes;
  float* absmax;
  float* elements;
};

[[gnu::always_inline]] inline void dequantize_blocks(const Blocks& blocks, int64_t begin,
                                                     int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const uint8_t* codes = blocks.codes + block * kStateBlock;
    float* elements = blocks.elements + block * kStateBlock;
    const float absmax = blocks.absmax[block];
    for (int64_t i = 0; i < kStateBlock; ++i) elements[i] = blocks.table.values[codes[i]] * absmax;
  }
}

// Compares bits, which have the order of the absolute values. NaN has the largest bits.
[[gnu::always_inline]] inline float absmax_of(const float* elements) {
  int32_t largest = 0;
  for (int64_t i = 0; i < kStateBlock; ++i) {
    largest = std::max(largest, std::bit_cast<int32_t>(elements[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

[[gnu::always_inline]] inline void quantize_blocks(const Blocks& blocks, int64_t begin,
                                                   int64_t end) {
  std::array<float, kStateBlock> numbers;
  std::array<uint16_t, kStateBlock> places;
  for (int64_t block = begin; block < end; ++block) {
    uint8_t* codes = blocks.codes + block * kStateBlock;
    const float* elements = blocks.elements + block * kStateBlock;
    const float absmax = absmax_of(elements);
    const float inverse = 1 / absmax;
    for (int64_t i = 0; i < kStateBlock; ++i) {
      numbers[i] = blocks.table.clamped(elements[i] * inverse);
      places[i] = BlockCodes::place_of(numbers[i]);
    }
    for (int64_t i = 0; i < kStateBlock; ++i) {
      codes[i] = blocks.table.code_at(places[i], numbers[i]);
    }
    blocks.absmax[block] = absmax;
  }
}

enum class Direction { kQuantize, kDequantize };

[[gnu::always_inline]] inline void convert(Direction direction, const Blocks& blocks, int64_t begin,
                                           int64_t end) {
  if (direction == Direction::kQuantize) {
    quantize_blocks(blocks, begin, end);
  } else {
    dequantize_blocks(blocks, begin, end);
  }
}

using Convert = void (*)(Direction, const Blocks&, int64_t, int64_t);

void convert_anywhere(Direction direction, const Blocks& blocks, int64_t begin, int64_t end) {
  convert(direction, blocks, begin, end);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void convert_with_avx2(Direction direction, const Blocks& blocks,
                                               int64_t begin, int64_t end) {
  convert(direction, blocks, begin, end);
}
#endif

// Returns the fastest variant for this CPU. All variants give the same bits.
Convert fastest_here() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return convert_with_avx2;
#endif
  return convert_anywhere;
}

// Converts on all threads.
void convert_all(Direction direction, const QuantizedState& state, const at::Tensor& elements) {
  static const Convert convert_range = fastest_here();
  const Blocks blocks{state.is_signed ? kFirstMomentCodes : kSecondMomentCodes,
                      state.codes.data_ptr<uint8_t>(), state.absmax.data_ptr<float>(),
                      elements.data_ptr<float>()};
  constexpr int64_t kBlocksOfThread = 32768 / kStateBlock;
  // The iterator uses libtorch's threads. at::parallel_for would be serial, because this file is
  // compiled without OpenMP.
  at::Tensor absmax = state.absmax;
  at::TensorIterator::nullary_op(absmax).for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) {
        const int64_t begin = reinterpret_cast<const float*>(data[0]) - blocks.absmax;
        convert_range(direction, blocks, begin, begin + size);
      },
      kBlocksOfThread);
}

}  // namespace

QuantizedState QuantizedState::zeros(int64_t elements, const at::TensorOptions& options,
                                     bool is_signed) {
  const BlockCodes& table = is_signed ? kFirstMomentCodes : kSecondMomentCodes;
  const at::Tensor codes = zeros_on_demand({elements}, options.dtype(at::kByte));
  if (table.code_of(0) != 0) codes.fill_(table.code_of(0));
  return {codes, zeros_on_demand({elements / kStateBlock}, options.dtype(at::kFloat)), is_signed};
}

QuantizedState QuantizedState::part(int64_t begin, int64_t size) const {
  return {codes.narrow(0, begin, size), absmax.narrow(0, begin / kStateBlock, size / kStateBlock),
          is_signed};
}

at::Tensor QuantizedState::dequantized() const {
  const at::Tensor elements = at::empty(codes.sizes(), absmax.options());
  launch("dequantize_state", {codes, absmax}, {elements},
         [&] { convert_all(Direction::kDequantize, *this, elements); });
  return elements;
}

void QuantizedState::quantize(const at::Tensor& elements) const {
  launch("quantize_state", {elements}, {codes, absmax},
         [&] { convert_all(Direction::kQuantize, *this, elements); });
}

}  // namespace fsdp
