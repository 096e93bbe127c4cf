#pragma once

namespace fsdp {

// The 256 values that 8 bits can stand for, in ascending order (Dettmers et al. 2022, dynamic tree
// quantization). A power of 10 takes a variable number of bits, and the fraction the other bits.
struct DynamicMap {
  float values[256];
};

// Returns the fp32 numbers of bitsandbytes' create_dynamic_map.
constexpr DynamicMap dynamic_map(bool is_signed) {
  DynamicMap map{};
  int count = 0;
  const auto insert = [&](float value) {
    int place = count++;
    for (; place > 0 && map.values[place - 1] > value; --place) {
      map.values[place] = map.values[place - 1];
    }
    map.values[place] = value;
  };
  constexpr int kExponents = 7;
  double power = 1e-6;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int fractions = is_signed ? 1 << exponent : 2 << exponent;
    const float step = (1.0f - 0.1f) / static_cast<float>(fractions);
    // Like torch.linspace, computes each half from its own end of the range, with one rounding.
    const auto boundary = [&](int i) {
      const bool is_first_half = i < (fractions + 1) / 2;
      const double from_end = static_cast<double>(step) * (fractions - i);
      return static_cast<float>(is_first_half ? 0.1f + static_cast<double>(step) * i
                                              : 1.0 - from_end);
    };
    for (int i = 0; i < fractions; ++i) {
      const float value = static_cast<float>(power) * ((boundary(i) + boundary(i + 1)) / 2);
      insert(value);
      if (is_signed) insert(-value);
    }
    power *= 10;
  }
  insert(0);
  insert(1);
  return map;
}

}  // namespace fsdp
