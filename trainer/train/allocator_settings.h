#pragma once

#include <string>

#include "trainer/comm/environment.h"

namespace fsdp {

// How libtorch's allocator of GPU memory is set.
struct AllocatorSettings {
  // What it is told, in the form of PYTORCH_ALLOC_CONF; empty: nothing.
  std::string ours;
  // What holds, for people: `ours`, or the user's "PYTORCH_ALLOC_CONF=..."; empty: its defaults.
  std::string in_force;

  bool operator==(const AllocatorSettings&) const = default;
};

// Segments that grow, so that buffers of changing sizes leave no gaps between fixed ones. Only
// where the GPU has virtual memory management, and not where the user has set a variable that
// libtorch reads, even to nothing: those settings stay as they are.
AllocatorSettings choose_allocator_settings(const EnvironmentLookup& lookup,
                                            bool has_virtual_memory);

}  // namespace fsdp
