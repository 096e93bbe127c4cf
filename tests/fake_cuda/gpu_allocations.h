#pragma once

#include "tests/trainer/step/step_allocations.h"

// Watches what steps allocate on a GPU that keeps accounts.
namespace fsdp {

inline constexpr int kCapability = 80;  // attention without cuDNN, which nobody fakes
inline constexpr int kGpu = 1;          // has it

// Operations with a workspace, of some kilobytes, that is CUB's and not planned.
inline const std::vector<std::string> kWithWorkspace = {"aten::sort", "aten::cumsum_"};

// An ObserveAllocations of libtorch's allocator.
void observe_cuda(Allocated allocated);

}  // namespace fsdp
