#pragma once

#include <c10/core/DeviceType.h>

#include <string>

#include "contract/spec/run_spec.h"
#include "trainer/kernels/kernels.h"

// What a run on a GPU lacks if the program was built without our own CUDA kernels.
namespace fsdp {

// Throws ConfigError if nothing else computes what these kernels do.
void refuse_without_cuda_kernels(const RunSpec& spec, c10::DeviceType device,
                                 bool has_cuda_kernels = kHasCudaKernels);

// Returns a clause about steps that are slow without these kernels; empty: there are none.
std::string slow_rounding_note(const RunSpec& spec, c10::DeviceType device,
                               bool has_cuda_kernels = kHasCudaKernels);

}  // namespace fsdp
