#pragma once

#include <cstdint>

namespace fsdp {

// Consecutive items that are loaded and stored together.
template <typename T, int kItems>
struct alignas(sizeof(T) * kItems) Pack {
  static constexpr int kCount = kItems;
  T items[kItems];
};

// True if packs of this size can be loaded from `data`.
inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

}  // namespace fsdp
