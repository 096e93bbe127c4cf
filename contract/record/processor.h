#pragma once

#include <string>

namespace fsdp {

// "AMD EPYC 9554P 64-Core Processor", as the kernel names it.
std::string processor_name();

// The cores this process may use: its affinity mask, or its cgroup's quota when that is less.
int available_cores();

}  // namespace fsdp
