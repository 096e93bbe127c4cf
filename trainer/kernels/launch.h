#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>

#include <utility>
#include <vector>

#include "trainer/memory/counting_allocator.h"

namespace fsdp {

using Tensors = std::vector<at::Tensor>;

inline constexpr int kPlannedMultiprocessors = 132;  // of an H100 or H200; used for every GPU

// Shows a kernel to libtorch's observers (at::RecordFunction) if libtorch does not do so itself.
inline void show_launch(const char* name, const Tensors& reads, const Tensors& writes) {
  std::vector<c10::IValue> inputs;  // outlives the record, which shows them at its end too
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (!record.isActive()) return;
  inputs.assign(reads.begin(), reads.end());
  record.before(name, &inputs);
  record.setOutputs(std::vector<c10::IValue>(writes.begin(), writes.end()));
}

// Runs a kernel without a meta version in libtorch: call() for real tensors, nothing for meta ones.
// On the CPU, its allocations are workspace and not counted. On CUDA, all is counted.
template <typename Call>
void launch(const char* name, const Tensors& reads, const Tensors& writes, Call&& call) {
  show_launch(name, reads, writes);
  if (writes.front().is_meta()) return;
  const c10::DeviceGuard on_device(writes.front().device());
  const UncountedMemory workspace(!writes.front().is_cuda());
  std::forward<Call>(call)();
}

// Does the same for an operator of libtorch that allocates its results, which are counted. For meta
// tensors, allocate() returns the results, and allocates the workspace that CUDA's operator would.
template <typename Call, typename Allocate>
Tensors launch_operator(const char* name, const Tensors& reads, Call&& call, Allocate&& allocate) {
  Tensors outputs;
  if (reads.front().is_meta()) {
    outputs = std::forward<Allocate>(allocate)();
    show_launch(name, reads, outputs);
    return outputs;
  }
  const bool is_on_cpu = !reads.front().is_cuda();
  {
    const UncountedMemory workspace(is_on_cpu);
    outputs = std::forward<Call>(call)();
  }
  if (!is_on_cpu) return outputs;
  for (const at::Tensor& output : outputs) {
    if (output.defined()) CountingAllocator::instance().adopt(output);
  }
  return outputs;
}

}  // namespace fsdp
