#pragma once

#include <array>
#include <cstdint>

// The generator SplitMix64 (Steele, Lea & Flood 2014).
namespace fsdp {
namespace splitmix {

inline constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
inline constexpr std::array<uint64_t, 2> kFactors{0xbf58476d1ce4e5b9, 0x94d049bb133111eb};
inline constexpr std::array<int, 3> kShifts{30, 27, 31};

constexpr uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> kShifts[0])) * kFactors[0];
  value = (value ^ (value >> kShifts[1])) * kFactors[1];
  return value ^ (value >> kShifts[2]);
}

}  // namespace splitmix

// Its number `index`, counted from 0, when it was seeded with `seed`.
constexpr uint64_t splitmix64(uint64_t seed, uint64_t index) {
  return splitmix::mixed(seed + (index + 1) * splitmix::kGamma);
}

}  // namespace fsdp
