#pragma once

#include <memory>

#include "contract/record/device_requirements.h"
#include "contract/spec/run_spec.h"
#include "trainer/kernels/kernels.h"

namespace fsdp {

// Throws ConfigError that names the GPU's compute capability when `set` has kernels of our own that
// were not compiled for it (`architectures`, as "sm_75 sm_80"; empty: it has none).
void require_kernels_for(KernelSet set, const std::string& architectures,
                         ComputeCapability capability);

// The same of a device that is there and of this program; nothing where it is no GPU.
void require_kernels_for(KernelSet set, at::Device device);

// That of a GPU; 0.0 of a CPU.
ComputeCapability capability_of(at::Device device);

// The kernels that `set` names, for tensors of a kind of device or for plans of one on meta.
// `capability_major`: see AtenKernels. Throws ConfigError when they are not to be had.
std::unique_ptr<Kernels> make_kernels(KernelSet set, c10::DeviceType device, int capability_major);

}  // namespace fsdp
