// Rounds fp32 to bf16 at random. CPU variants and GPU operations give the same bits.
#include "trainer/step/stochastic_rounding.h"

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/files/digest.h"
#include "base/system/processor.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/on_meta.h"
#include "trainer/step/bfloat16_bits.cuh"

namespace fsdp {
namespace {

using splitmix::mixed;

struct Operand {
  const float* from;
  at::BFloat16* to;
  int slot;
};

// Tensors to round on the CPU. The first element draws splitmix64(key, first).
struct Rounding {
  uint64_t key;
  uint64_t first;
  std::vector<Operand> operands;
};

// Rounds elements [begin, end).
[[gnu::always_inline]] inline void round_elements(const Rounding& rounding, int64_t begin,
                                                  int64_t end) {
  constexpr int64_t kChunk = 512;  // stays in the cache
  std::array<uint64_t, kChunk> draws;
  for (; begin < end; begin += kChunk) {
    const int64_t count = std::min(kChunk, end - begin);
    for (int64_t i = 0; i < count; ++i) {
      draws[i] = splitmix64(rounding.key, rounding.first + begin + i);
    }
    for (const Operand& operand : rounding.operands) {
      const float* from = operand.from + begin;
      at::BFloat16* to = operand.to + begin;
      const int slot = operand.slot;
      for (int64_t i = 0; i < count; ++i) {
        to[i].x = rounded(bits_of(from[i]), random_digits(draws[i], slot));
      }
    }
  }
}

using RoundElements = void (*)(const Rounding&, int64_t, int64_t);

void round_anywhere(const Rounding& rounding, int64_t begin, int64_t end) {
  round_elements(rounding, begin, end);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void round_with_avx2(const Rounding& rounding, int64_t begin, int64_t end) {
  round_elements(rounding, begin, end);
}

[[gnu::target("avx512dq,avx512bw,avx512vl")]] void round_with_avx512(const Rounding& rounding,
                                                                     int64_t begin, int64_t end) {
  round_elements(rounding, begin, end);
}
#endif

// Returns the fastest variant for this CPU. All variants give the same bits.
RoundElements fastest_here() {
#ifdef __x86_64__
  if (has_avx512()) return round_with_avx512;
  if (__builtin_cpu_supports("avx2")) return round_with_avx2;
#endif
  return round_anywhere;
}

// Computes values ^= values >> shift, with an unsigned shift.
void mix_in_shifted(const at::Tensor& values, int shift) {
  const int64_t without_sign = (int64_t{1} << (64 - shift)) - 1;
  at::Tensor shifted = values.bitwise_right_shift(shift);
  values.bitwise_xor_(shifted.bitwise_and_(without_sign));
}

// Returns an int64 tensor [size] that holds the draws' bits.
at::Tensor draws_of(const Draws& draws, int64_t size, at::Device device) {
  const auto first = static_cast<int64_t>(draws.first_element + 1);
  at::Tensor values = counted(first, size, at::TensorOptions(at::kLong).device(device))
                          .mul_(static_cast<int64_t>(splitmix::kGamma))
                          .add_(static_cast<int64_t>(draws.key()));
  mix_in_shifted(values, splitmix::kShift1);
  values.mul_(static_cast<int64_t>(splitmix::kFactor1));
  mix_in_shifted(values, splitmix::kShift2);
  values.mul_(static_cast<int64_t>(splitmix::kFactor2));
  mix_in_shifted(values, splitmix::kShift3);
  return values;
}

}  // namespace

uint64_t random_key(int64_t seed, std::string_view parameter) {
  const uint64_t name = std::stoull(text_digest(parameter).substr(0, 16), nullptr, 16);
  return mixed(mixed(static_cast<uint64_t>(seed)) + name);
}

void round_stochastically_by_operations(const std::vector<at::Tensor>& to,
                                        const std::vector<at::Tensor>& from, const Draws& draws) {
  const at::Tensor values = draws_of(draws, to.front().numel(), to.front().device());
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].scalar_type() != at::kBFloat16) continue;
    const auto shift = static_cast<int64_t>(i) * kDroppedBits;
    at::Tensor bits = values.bitwise_right_shift(shift).bitwise_and_(kDroppedMask).to(at::kInt);
    bits.add_(from[i].view(at::kInt)).bitwise_and_(~static_cast<int64_t>(kDroppedMask));
    const at::Tensor is_rounded = is_finite(from[i]);
    at::Tensor result = at::empty_like(from[i]);
    launch("where", {is_rounded, bits, from[i]}, {result},
           [&] { at::where_out(result, is_rounded, bits.view(at::kFloat), from[i]); });
    to[i].copy_(result);
  }
}

void round_stochastically(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                          const Draws& draws) {
  Rounding rounding{draws.key(), static_cast<uint64_t>(draws.first_element), {}};
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].scalar_type() != at::kBFloat16) continue;
    rounding.operands.push_back({.from = from[i].const_data_ptr<float>(),
                                 .to = to[i].data_ptr<at::BFloat16>(),
                                 .slot = static_cast<int>(i)});
  }
  static const RoundElements round = fastest_here();
  // The iterator uses libtorch's threads. at::parallel_for would be serial, because this file is
  // compiled without OpenMP.
  at::Tensor elements = from.front();
  at::TensorIterator::nullary_op(elements).for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) {
        const int64_t begin =
            reinterpret_cast<const float*>(data[0]) - elements.const_data_ptr<float>();
        round(rounding, begin, begin + size);
      });
}

}  // namespace fsdp
