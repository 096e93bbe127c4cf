#pragma once

#include <bit>
#include <cstdint>

#include "trainer/kernels/dynamic_map.h"
#include "trainer/kernels/host_device.h"
#include "trainer/step/bfloat16_bits.cuh"

// Codes of 8 bits for numbers in [-1, 1]. A code stands for the nearest value of a dynamic map
// (dynamic_map.h). The functions also run on the host.
namespace fsdp {

// A number's key: its exponent and the upper bits of its fraction. At most one limit lies between
// numbers of the same sign and key.
inline constexpr int kKeyShift = 16;
inline constexpr int32_t kFirstKey = std::bit_cast<int32_t>(0x1p-22f) >> kKeyShift;
inline constexpr int32_t kKeys = (std::bit_cast<int32_t>(1.0f) >> kKeyShift) - kFirstKey + 1;

struct alignas(16) BlockCodes {
  float values[256];         // by code, ascending
  float limits[256];         // by code: the largest number that is not nearer to the next value
  uint8_t codes[2 * kKeys];  // by key: the code of the least number, positive numbers first

  // Returns the code of the nearest value, in a tie the lower code. NaN has code 0.
  FSDP_HOST_DEVICE uint8_t code_of(float number) const {
    const float inside = clamped(number);
    return code_at(place_of(inside), inside);
  }

  // The parts of code_of(). The compiler can vectorize the first two.
  FSDP_HOST_DEVICE float clamped(float number) const {
    number = number > values[0] ? number : values[0];
    return number < 1.0f ? number : 1.0f;
  }
  FSDP_HOST_DEVICE static uint16_t place_of(float inside) {
    const auto bits = static_cast<int32_t>(bits_of(inside));
    const int32_t key = ((bits & 0x7fffffff) >> kKeyShift) - kFirstKey;
    return static_cast<uint16_t>((key > 0 ? key : 0) + (bits < 0 ? kKeys : 0));
  }
  FSDP_HOST_DEVICE uint8_t code_at(uint16_t place, float inside) const {
    const uint8_t code = codes[place];
    return static_cast<uint8_t>(code + (inside > limits[code] ? 1 : 0));
  }
};

constexpr BlockCodes block_codes(bool is_signed) {
  BlockCodes table{};
  const DynamicMap map = dynamic_map(is_signed);
  for (int code = 0; code < 256; ++code) {
    table.values[code] = map.values[code];
    const double next = code < 255 ? map.values[code + 1] : 4;
    const double middle = (map.values[code] + next) / 2;
    auto limit = static_cast<float>(middle);
    if (limit > middle) {
      const auto bits = std::bit_cast<uint32_t>(limit);
      limit = std::bit_cast<float>(limit > 0 ? bits - 1 : bits + 1);
    }
    table.limits[code] = limit;
  }
  // The code of each key's least number. Among negative numbers, a larger key means a lower number.
  int code = 255;
  const auto code_of = [&](float number) {
    while (code > 0 && !(number > table.limits[code - 1])) --code;
    while (number > table.limits[code]) ++code;
    return static_cast<uint8_t>(code);
  };
  for (int32_t i = 0; i < kKeys; ++i) {
    const uint32_t bits = static_cast<uint32_t>(kFirstKey + i) << kKeyShift;
    const uint32_t least = i == 0 ? 0 : bits;
    const uint32_t least_negative = 0x80000000 | bits | 0xffff;
    table.codes[i] = code_of(std::bit_cast<float>(least));
    table.codes[kKeys + i] = is_signed ? code_of(std::bit_cast<float>(least_negative)) : 0;
  }
  return table;
}

FSDP_DEVICE_CONSTANT constexpr BlockCodes kFirstMomentCodes = block_codes(/*is_signed=*/true);
FSDP_DEVICE_CONSTANT constexpr BlockCodes kSecondMomentCodes = block_codes(/*is_signed=*/false);

}  // namespace fsdp
