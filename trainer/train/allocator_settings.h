#pragma once

#include <string>

#include "trainer/comm/environment.h"

namespace fsdp {

// The settings of libtorch's allocator of GPU memory.
struct AllocatorSettings {
  // The settings that the trainer chooses, in the form of PYTORCH_ALLOC_CONF; empty: none.
  std::string ours;
  // The settings in force, as shown to users: `ours` or "PYTORCH_ALLOC_CONF=..."; empty: the
  // defaults.
  std::string in_force;

  bool operator==(const AllocatorSettings&) const = default;
};

// Chooses expandable segments, because buffers of changing sizes then leave no gaps between other
// buffers. Chooses nothing if the GPU lacks virtual memory management. The user's settings stay if
// a variable that libtorch reads is set, even if it is empty.
AllocatorSettings choose_allocator_settings(const EnvironmentLookup& lookup,
                                            bool has_virtual_memory);

}  // namespace fsdp
