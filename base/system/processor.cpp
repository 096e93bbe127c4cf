// Names the processor, and counts the cores that this process may use.
#include "base/system/processor.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string_view>

#include "base/system/cgroups.h"

namespace fsdp {
namespace {

// With libgomp's default of 300,000, a waiting thread spins for milliseconds. If another process
// takes a core, this thread holds the core that its peer needs. A step has thousands of such waits
// (measured in docs/performance.md).
char spin_count[] = "GOMP_SPINCOUNT=4000";

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

Cpus allowed_cpus(int thread) {
  std::array<cpu_set_t, kMostCpus / CPU_SETSIZE> mask{};
  Cpus cpus;
  if (sched_getaffinity(thread, sizeof(mask), mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.data())) cpus.insert(cpu);
  }
  return cpus;
}

int available_cores() {
  const auto cores = static_cast<double>(allowed_cpus().size());
  return std::max(1, static_cast<int>(std::min(cores, std::floor(cgroup_cores()))));
}

char* missing_spin_count(char** environment) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (variable.starts_with("GOMP_SPINCOUNT=") || variable.starts_with("OMP_WAIT_POLICY=")) {
      return nullptr;
    }
  }
  return spin_count;
}

}  // namespace fsdp
