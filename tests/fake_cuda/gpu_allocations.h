#pragma once

#include "tests/trainer/step/step_allocations.h"

// Watches what steps allocate on the fake GPU (tests/fakes/cuda).
namespace fsdp {

inline constexpr int kCapability = 80;  // its attention does not use cuDNN, which has no fake
inline constexpr int kGpu = 1;          // has this capability

// Operations whose CUB kernel allocates some kilobytes of workspace. Plans leave it out.
inline const std::vector<std::string> kWithWorkspace = {"aten::sort", "aten::cumsum_"};

// An ObserveAllocations of libtorch's allocator.
void observe_cuda(Allocated allocated);

}  // namespace fsdp
