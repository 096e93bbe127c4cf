#include "base/system/processor.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
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
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int cores = sched_getaffinity(0, sizeof(mask), &mask) == 0
                        ? CPU_COUNT(&mask)
                        : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(1, static_cast<int>(std::min<double>(cores, std::floor(cgroup_cores()))));
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
