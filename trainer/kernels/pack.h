#pragma once

namespace fsdp {

// Consecutive items that are loaded and stored together.
template <typename T, int kItems>
struct alignas(sizeof(T) * kItems) Pack {
  static constexpr int kCount = kItems;
  T items[kItems];
};

}  // namespace fsdp
