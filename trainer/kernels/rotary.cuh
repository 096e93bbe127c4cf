#pragma once

#include <cstdint>

#include "trainer/kernels/host_device.h"
#include "trainer/kernels/pack.h"
#include "trainer/kernels/rotary.h"

// The rotation of one row by several threads. It also runs on the host, where a test compares it
// with fp64.
namespace fsdp {

FSDP_HOST_DEVICE int64_t heads_of(const Rotation& rotation) {
  return rotation.query_heads + (rotation.value.data ? 2 : 1) * rotation.key_value_heads;
}

// Rotates kCount pairs of `head`, from pair `i` of it, of a token and its row among all sequences.
template <typename T, int kCount>
FSDP_HOST_DEVICE void rotate_part(const Rotation& rotation, int64_t row, int64_t sequence,
                                  int64_t token, int64_t head, int64_t i) {
  using Part = Pack<T, kCount>;
  const int64_t half = rotation.width / 2;
  const int64_t key_begin = rotation.query_heads;
  const int64_t value_begin = key_begin + rotation.key_value_heads;
  const bool is_value = head >= value_begin;
  const HeadRows& from = head < key_begin ? rotation.query
                         : is_value       ? rotation.value
                                          : rotation.key;
  const int64_t begin = head < key_begin ? 0 : is_value ? value_begin : key_begin;
  const T* in = static_cast<const T*>(from.data) + sequence * from.sequence_stride +
                token * from.token_stride + (head - begin) * from.head_stride + i;
  const int64_t heads_of_row = value_begin + rotation.key_value_heads;
  T* out = static_cast<T*>(rotation.packed) + (row * heads_of_row + head) * rotation.width + i;

  Part first = *reinterpret_cast<const Part*>(in);
  Part second = *reinterpret_cast<const Part*>(in + half);
  if (!is_value) {
    const int64_t angle = token * half + i;
    const Part cosine =
        *reinterpret_cast<const Part*>(static_cast<const T*>(rotation.cosine) + angle);
    const Part sine = *reinterpret_cast<const Part*>(static_cast<const T*>(rotation.sine) + angle);
    for (int k = 0; k < kCount; ++k) {
      const float x = static_cast<float>(first.items[k]);
      const float y = static_cast<float>(second.items[k]);
      const float c = static_cast<float>(cosine.items[k]);
      const float s = static_cast<float>(sine.items[k]) * (rotation.is_back ? -1.0f : 1.0f);
      first.items[k] = static_cast<T>(x * c - y * s);
      second.items[k] = static_cast<T>(y * c + x * s);
    }
  }
  *reinterpret_cast<Part*>(out) = first;
  *reinterpret_cast<Part*>(out + half) = second;
}

// Rotates the part of a row that belongs to `thread` of `threads`. kCount divides half of the
// width. All heads are aligned to kCount items. Divisions of 64 bits would take longer than the
// memory, so they have 32 bits.
template <typename T, int kCount>
FSDP_HOST_DEVICE void rotate_row(const Rotation& rotation, uint32_t row, uint32_t thread,
                                 uint32_t threads) {
  const auto tokens = static_cast<uint32_t>(rotation.tokens);
  const auto parts_of_head = static_cast<uint32_t>(rotation.width / 2 / kCount);
  const auto parts = static_cast<uint32_t>(heads_of(rotation)) * parts_of_head;
  for (uint32_t part = thread; part < parts; part += threads) {
    rotate_part<T, kCount>(rotation, row, row / tokens, row % tokens, part / parts_of_head,
                           int64_t{part % parts_of_head} * kCount);
  }
}

}  // namespace fsdp
