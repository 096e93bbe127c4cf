#pragma once

#include <set>
#include <string>

namespace fsdp {

// "AMD EPYC 9554P 64-Core Processor", as the kernel names it; else "unknown processor".
std::string processor_name();

// True if the CPU has AVX-512 with its parts BW, DQ and VL.
inline bool has_avx512() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

using Cpus = std::set<int>;
// The most CPUs that Linux supports.
inline constexpr int kMostCpus = 8192;

// Returns the CPUs that the thread may run on; empty if unknown. Thread 0 is the calling one.
Cpus allowed_cpus(int thread = 0);

// The number of cores this process may use: its affinity mask, or its cgroup's quota if less.
int available_cores();

// Returns "GOMP_SPINCOUNT=4000", which limits how long threads of libgomp spin before they sleep.
// Null if `environment` sets GOMP_SPINCOUNT or OMP_WAIT_POLICY. libgomp reads the variable when it
// is loaded, so only programs that start afterwards use it.
char* missing_spin_count(char** environment);

}  // namespace fsdp
