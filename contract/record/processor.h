#pragma once

#include <string>

namespace fsdp {

// "AMD EPYC 9554P 64-Core Processor", as the kernel names it.
std::string processor_name();

// The cores this process may use: its affinity mask, or its cgroup's quota when that is less.
int available_cores();

// "GOMP_SPINCOUNT=4000": how long threads of libgomp spin before they sleep. Null if `environment`
// says so itself. libgomp reads it when it is loaded, so it is for programs that start afterwards.
char* missing_spin_count(char** environment);

}  // namespace fsdp
