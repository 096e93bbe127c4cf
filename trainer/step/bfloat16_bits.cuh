#pragma once

#include <cstdint>
#include <cstring>

#include "trainer/kernels/host_device.h"

// Bfloat16 numbers as the upper half of fp32's bits, on a GPU and on the host.
namespace fsdp {

using Bfloat16Bits = uint16_t;
inline constexpr int kDroppedBits = 16;  // the bits that bfloat16 lacks
inline constexpr uint32_t kDroppedMask = (1u << kDroppedBits) - 1;

FSDP_HOST_DEVICE uint32_t bits_of(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

FSDP_HOST_DEVICE float float_of(Bfloat16Bits half) {
  const uint32_t bits = uint32_t{half} << kDroppedBits;
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds an fp32 number: adds `added`, at most kDroppedMask, to its `bits`, and returns the upper
// half. A NaN stays a NaN.
FSDP_HOST_DEVICE Bfloat16Bits rounded(uint32_t bits, uint32_t added) {
  constexpr uint32_t kInfinite = 0x7f800000;
  constexpr uint32_t kQuiet = 0x00400000;
  const bool is_nan = (bits & 0x7fffffff) > kInfinite;
  return static_cast<Bfloat16Bits>((is_nan ? bits | kQuiet : bits + added) >> kDroppedBits);
}

// Returns the value that rounded() adds to round to nearest, ties to even.
FSDP_HOST_DEVICE uint32_t half_digit(uint32_t bits) {
  return kDroppedMask / 2 + ((bits >> kDroppedBits) & 1);
}

// Returns the value that rounded() adds to round at random: the bits of the draw that tensor `slot`
// uses.
FSDP_HOST_DEVICE uint32_t random_digits(uint64_t draw, int slot) {
  return static_cast<uint32_t>(draw >> (slot * kDroppedBits)) & kDroppedMask;
}

}  // namespace fsdp
