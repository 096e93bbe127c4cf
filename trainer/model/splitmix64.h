#pragma once

#include <cstdint>

#include "trainer/kernels/host_device.h"

// The generator SplitMix64 (Steele, Lea & Flood 2014).
namespace fsdp {
namespace splitmix {

inline constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
inline constexpr uint64_t kFactor1 = 0xbf58476d1ce4e5b9;
inline constexpr uint64_t kFactor2 = 0x94d049bb133111eb;
inline constexpr int kShift1 = 30;
inline constexpr int kShift2 = 27;
inline constexpr int kShift3 = 31;

FSDP_HOST_DEVICE constexpr uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> kShift1)) * kFactor1;
  value = (value ^ (value >> kShift2)) * kFactor2;
  return value ^ (value >> kShift3);
}

}  // namespace splitmix

// Returns number `index`, counted from 0, of a generator seeded with `seed`.
FSDP_HOST_DEVICE constexpr uint64_t splitmix64(uint64_t seed, uint64_t index) {
  return splitmix::mixed(seed + (index + 1) * splitmix::kGamma);
}

}  // namespace fsdp
