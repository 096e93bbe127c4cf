#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/memory/counting_allocator.h"

// The allocations of a step in order, on any backend.
namespace fsdp {

// A run, and the lengths of the documents in each row of a batch; none: every row is one document.
struct StepCase {
  RunSpec spec;
  std::vector<int64_t> document_lengths{};
};

// Cases of every strategy: precisions, offload, accumulation, recomputation, wraps, ways to step,
// optimizers, an encoder with dropout, and documents.
std::vector<StepCase> step_cases();

// Called for each allocation of a device's memory, and for its release.
using Allocated = std::function<void(uintptr_t id, int64_t bytes, bool is_release)>;
// Calls `Allocated` from now on; an empty function ends this.
using ObserveAllocations = std::function<void(Allocated)>;
ObserveAllocations observe(AllocationCounter& counter);

// An allocation. A release has negative bytes.
struct Allocation {
  uintptr_t id;
  int64_t bytes;
  std::string operation;  // the operation of libtorch that made it
};

// Returns the allocations of two optimizer steps and of evaluations with several lengths of rows.
std::vector<Allocation> allocations(const StepCase& step_case, Backend& backend,
                                    const ObserveAllocations& observe);

// Leaves out what these operations, such as "aten::sort", allocate and release while they run.
std::vector<Allocation> without_workspace(std::vector<Allocation> log,
                                          const std::vector<std::string>& operations);

// Fails at the first difference and names the operation.
void check_same_allocations(const StepCase& step_case, const std::vector<Allocation>& real,
                            const std::vector<Allocation>& planned);

}  // namespace fsdp
