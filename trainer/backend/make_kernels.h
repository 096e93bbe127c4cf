#pragma once

#include <memory>

#include "contract/devices/device_requirements.h"
#include "contract/spec/run_spec.h"
#include "trainer/kernels/kernels.h"

namespace fsdp {

// Throws ConfigError that names the GPU's compute capability if `set` has kernels of our own that
// were not compiled for it. `architectures` is like "sm_75 sm_80"; empty: no such kernels.
void require_kernels_for(KernelSet set, const std::string& architectures,
                         ComputeCapability capability);

// Does the same for `device` and the architectures that this program was built for. Does nothing if
// the device is no GPU.
void require_kernels_for(KernelSet set, at::Device device);

// Returns the compute capability of a GPU; 0.0 for a CPU.
ComputeCapability capability_of(at::Device device);

// Returns the kernels that `set` names, for tensors on a kind of device or for its plans on meta.
// `capability_major`: see AtenKernels. Throws ConfigError if they are unavailable.
std::unique_ptr<Kernels> make_kernels(KernelSet set, c10::DeviceType device, int capability_major);

}  // namespace fsdp
