// Adds parts in rank order, so that every rank and every run has the same bits.
#include "trainer/comm/sum_in_order.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>

namespace fsdp {
namespace {

template <typename T, typename Sum>
void sum_typed(std::span<const std::byte* const> sources, std::byte* out, int64_t bytes) {
  constexpr int64_t kBlock = 2048;
  std::array<Sum, kBlock> sum;
  const int64_t count = bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<Sum>(first[i]);
    for (const std::byte* source : sources.subspan(1)) {
      const auto* next = reinterpret_cast<const T*>(source) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<Sum>(next[i]);
    }
    auto* result = reinterpret_cast<T*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(sum[i]);
  }
}

}  // namespace

void sum_in_order(at::ScalarType dtype, std::span<const std::byte* const> sources, std::byte* out,
                  int64_t bytes) {
  switch (dtype) {
    case at::kFloat:
      return sum_typed<float, float>(sources, out, bytes);
    case at::kDouble:
      return sum_typed<double, double>(sources, out, bytes);
    case at::kBFloat16:
      return sum_typed<at::BFloat16, float>(sources, out, bytes);
    case at::kHalf:
      return sum_typed<at::Half, float>(sources, out, bytes);
    case at::kLong:
      return sum_typed<int64_t, int64_t>(sources, out, bytes);
    default:
      TORCH_CHECK(false, "no sum over ranks for ", dtype);
  }
}

}  // namespace fsdp
