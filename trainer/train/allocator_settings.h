#pragma once

#include <string>

#include "trainer/comm/environment.h"

namespace fsdp {

// The settings of libtorch's allocator of GPU memory.
struct AllocatorSettings {
  // The settings that the trainer makes, in the form of PYTORCH_ALLOC_CONF; empty: none.
  std::string ours;
  // The settings in force, for people: `ours` or "PYTORCH_ALLOC_CONF=..."; empty: the defaults.
  std::string in_force;

  bool operator==(const AllocatorSettings&) const = default;
};

// Chooses expandable segments, so that buffers of changing sizes leave no gaps between fixed ones.
// Chooses nothing if the GPU lacks virtual memory management. The user's settings stay if a
// variable that libtorch reads is set, even if it is empty.
AllocatorSettings choose_allocator_settings(const EnvironmentLookup& lookup,
                                            bool has_virtual_memory);

}  // namespace fsdp
