#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/kernels/host_device.h"
#include "trainer/kernels/pack.h"
#include "trainer/model/splitmix64.h"
#include "trainer/step/adam.h"
#include "trainer/step/bfloat16_bits.cuh"

// Adam's and AdamW's step, one element at a time in fp32, with the same bits as libtorch's step on
// a CPU. Products and sums are written so that the compiler cannot contract them. The code also
// runs on the host, where a test compares the bits.
namespace fsdp {

// The factors that all elements share in one step.
struct AdamFactors {
  float kept_parameter;     // AdamW's weight decay; 1 for Adam
  float decay_in_gradient;  // Adam's weight decay; 0 for AdamW
  float first_weight;       // of the gradient in the first moment
  float beta2;
  float second_weight;
  float root_of_correction;
  float negative_rate;
  float epsilon;
};

FSDP_HOST_DEVICE AdamFactors adam_factors(const AdamSettings& settings, double number) {
  const double correction1 = 1 - pow(settings.beta1, number);
  const double correction2 = 1 - pow(settings.beta2, number);
  const double decay = settings.weight_decay;
  const bool is_decoupled = settings.is_decay_decoupled;
  return {.kept_parameter =
              is_decoupled ? static_cast<float>(1 - settings.learning_rate * decay) : 1.0f,
          .decay_in_gradient = is_decoupled ? 0.0f : static_cast<float>(decay),
          .first_weight = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .second_weight = static_cast<float>(1 - settings.beta2),
          .root_of_correction = static_cast<float>(sqrt(correction2)),
          .negative_rate = static_cast<float>(-(settings.learning_rate / correction1)),
          .epsilon = static_cast<float>(settings.epsilon)};
}

struct AdamElement {
  float parameter;
  float first_moment;
  float second_moment;

  FSDP_HOST_DEVICE void step(float gradient, const AdamFactors& factors) {
    parameter = rounded_product(parameter, factors.kept_parameter);
    if (factors.decay_in_gradient != 0) {
      gradient = fmaf(parameter, factors.decay_in_gradient, gradient);
    }
    const float difference = gradient - first_moment;
    first_moment = factors.first_weight < 0.5f
                       ? fmaf(factors.first_weight, difference, first_moment)
                       : fmaf(factors.first_weight - 1, difference, gradient);
    second_moment = fmaf(factors.second_weight * gradient, gradient, second_moment * factors.beta2);
    const float root = sqrtf(second_moment) / factors.root_of_correction + factors.epsilon;
    parameter = parameter + factors.negative_rate * first_moment / root;
  }
};

FSDP_HOST_DEVICE float float_of(float value) { return value; }

// Writes `value` to `to`. bf16 is rounded at random if `is_random`, else to the nearest. An
// element's parameter and its two moments, slots 0 to 2, use different bits of one random number,
// `draw`.
FSDP_HOST_DEVICE void put(float value, float& to, bool, uint64_t, int) { to = value; }
FSDP_HOST_DEVICE void put(float value, Bfloat16Bits& to, bool is_random, uint64_t draw, int slot) {
  const uint32_t bits = bits_of(value);
  to = rounded(bits, is_random ? random_digits(draw, slot) : half_digit(bits));
}

// Steps part `index` of kCount elements. All tensors are aligned to such parts. `Parameter` and
// `State` are float or Bfloat16Bits.
template <typename Parameter, typename State, int kCount>
FSDP_HOST_DEVICE void step_adam_part(Parameter* parameters, const Parameter* gradient,
                                     State* first_moment, State* second_moment,
                                     const AdamFactors& factors, float divisor,
                                     const AdamRounding& rounding, int64_t index) {
  using Parameters = Pack<Parameter, kCount>;
  using States = Pack<State, kCount>;
  const int64_t begin = index * kCount;
  Parameters& parameters_of_part = *reinterpret_cast<Parameters*>(parameters + begin);
  States& first_of_part = *reinterpret_cast<States*>(first_moment + begin);
  States& second_of_part = *reinterpret_cast<States*>(second_moment + begin);
  const Parameters g = *reinterpret_cast<const Parameters*>(gradient + begin);
  Parameters p = parameters_of_part;
  States m = first_of_part;
  States v = second_of_part;
  for (int i = 0; i < kCount; ++i) {
    AdamElement element{float_of(p.items[i]), float_of(m.items[i]), float_of(v.items[i])};
    element.step(float_of(g.items[i]) / divisor, factors);
    const bool is_random = rounding.is_random;
    const uint64_t draw =
        is_random ? splitmix64(rounding.key, rounding.first_element + begin + i) : 0;
    put(element.parameter, p.items[i], is_random, draw, 0);
    put(element.first_moment, m.items[i], is_random, draw, 1);
    put(element.second_moment, v.items[i], is_random, draw, 2);
  }
  parameters_of_part = p;
  first_of_part = m;
  second_of_part = v;
}

}  // namespace fsdp
