#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/kernels/host_device.h"
#include "trainer/kernels/pack.h"

// Computes h = silu(gate) * up and its gradients, one element at a time in fp32. It also runs on
// the host, where a test compares it with fp64.
namespace fsdp {

struct SwigluGradient {
  float h;
  float d_gate;
  float d_up;
};

FSDP_HOST_DEVICE SwigluGradient swiglu_gradient(float gate, float up, float dh) {
  const float sigmoid = 1 / (1 + expf(-gate));
  const float silu = gate * sigmoid;
  return {silu * up, dh * up * (sigmoid + silu * (1 - sigmoid)), dh * silu};
}

FSDP_HOST_DEVICE float swiglu_of(float gate, float up) { return gate / (1 + expf(-gate)) * up; }

// Computes part `index` of kCount columns, counted through the rows of h [rows, width]. kCount
// divides width, and all rows are aligned to kCount items.
template <typename T, int kCount>
FSDP_HOST_DEVICE void swiglu_part(T* h, const T* gate_up, int64_t width, int64_t index) {
  using Part = Pack<T, kCount>;
  const int64_t gate_at = index * kCount / width * 2 * width + index * kCount % width;
  const Part gate = *reinterpret_cast<const Part*>(gate_up + gate_at);
  const Part up = *reinterpret_cast<const Part*>(gate_up + gate_at + width);
  Part result;
  for (int i = 0; i < kCount; ++i) {
    result.items[i] = static_cast<T>(
        swiglu_of(static_cast<float>(gate.items[i]), static_cast<float>(up.items[i])));
  }
  *reinterpret_cast<Part*>(h + index * kCount) = result;
}

// Computes part `index` of kCount columns, counted through the rows of dh [rows, width]; h replaces
// dh. gate_up and d_gate_up are [rows, 2 * width], with the gate first. kCount divides width, and
// all rows are aligned to kCount items.
template <typename T, int kCount>
FSDP_HOST_DEVICE void swiglu_backward_part(T* dh, const T* gate_up, T* d_gate_up, int64_t width,
                                           int64_t index) {
  using Part = Pack<T, kCount>;
  const int64_t column = index * kCount % width;
  const int64_t row = index * kCount / width;
  const int64_t gate_at = row * 2 * width + column;
  const Part gate = *reinterpret_cast<const Part*>(gate_up + gate_at);
  const Part up = *reinterpret_cast<const Part*>(gate_up + gate_at + width);
  Part h = *reinterpret_cast<const Part*>(dh + index * kCount);
  Part d_gate;
  Part d_up;
  for (int i = 0; i < kCount; ++i) {
    const SwigluGradient gradient =
        swiglu_gradient(static_cast<float>(gate.items[i]), static_cast<float>(up.items[i]),
                        static_cast<float>(h.items[i]));
    h.items[i] = static_cast<T>(gradient.h);
    d_gate.items[i] = static_cast<T>(gradient.d_gate);
    d_up.items[i] = static_cast<T>(gradient.d_up);
  }
  *reinterpret_cast<Part*>(dh + index * kCount) = h;
  *reinterpret_cast<Part*>(d_gate_up + gate_at) = d_gate;
  *reinterpret_cast<Part*>(d_gate_up + gate_at + width) = d_up;
}

}  // namespace fsdp
