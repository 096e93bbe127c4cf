#pragma once

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/kernels/kernels.h"

namespace fsdp {

// The kernels that `set` names, for tensors of a kind of device or for plans of one on meta. Throws
// ConfigError when they are not to be had.
std::unique_ptr<Kernels> make_kernels(KernelSet set, c10::DeviceType device);

}  // namespace fsdp
