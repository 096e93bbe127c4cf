#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>

#include <utility>
#include <vector>

#include "trainer/memory/counting_allocator.h"

namespace fsdp {

using Tensors = std::vector<at::Tensor>;

inline constexpr int kPlannedMultiprocessors = 132;  // of a Hopper GPU; others have less

// Shows a kernel that libtorch does not show by itself to its observers (at::RecordFunction).
inline void show_launch(const char* name, const Tensors& reads, const Tensors& writes) {
  std::vector<c10::IValue> inputs;  // outlives the record, whose end shows them too
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (!record.isActive()) return;
  inputs.assign(reads.begin(), reads.end());
  record.before(name, &inputs);
  record.setOutputs(std::vector<c10::IValue>(writes.begin(), writes.end()));
}

// Runs a kernel that libtorch has no meta version of: call() on real tensors, nothing on meta ones.
// What it allocates is workspace, not counted.
template <typename Call>
void launch(const char* name, const Tensors& reads, const Tensors& writes, Call&& call) {
  show_launch(name, reads, writes);
  if (writes.front().is_meta()) return;
  const c10::DeviceGuard on_device(writes.front().device());
  const UncountedMemory workspace;
  std::forward<Call>(call)();
}

// The same for an operator of libtorch that allocates what it returns, and on the CPU workspace
// besides: on meta tensors that is what allocate() returns.
template <typename Call, typename Allocate>
Tensors launch_operator(const char* name, const Tensors& reads, Call&& call, Allocate&& allocate) {
  Tensors outputs;
  if (reads.front().is_meta()) {
    outputs = std::forward<Allocate>(allocate)();
    show_launch(name, reads, outputs);
    return outputs;
  }
  {
    const UncountedMemory workspace;
    outputs = std::forward<Call>(call)();
  }
  for (const at::Tensor& output : outputs) {
    if (output.defined()) CountingAllocator::instance().adopt(output);
  }
  return outputs;
}

}  // namespace fsdp
