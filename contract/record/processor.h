#pragma once

#include <string>

namespace fsdp {

// "AMD EPYC 9554P 64-Core Processor", as the kernel names it.
std::string processor_name();

// The cores this process may use: its affinity mask, or its cgroup's quota when that is less.
int available_cores();

// Says in the environment how long threads of libgomp spin before they sleep, unless the user has.
// Returns true if it did. libgomp reads it when it is loaded, so it is for programs that are
// started afterwards.
bool choose_spin_count();

}  // namespace fsdp
