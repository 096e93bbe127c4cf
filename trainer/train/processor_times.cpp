// Parses the processor times in /proc/stat.
#include "trainer/train/processor_times.h"

#include <array>
#include <fstream>
#include <numeric>
#include <sstream>

namespace fsdp {

std::map<std::string, ProcessorTime> processor_times(const std::filesystem::path& proc) {
  // Fields: user nice system idle iowait irq softirq steal. Guests' time is in user and nice.
  constexpr size_t kIdle = 3;
  constexpr size_t kWaitingForDisk = 4;
  std::map<std::string, ProcessorTime> times;
  std::ifstream file(proc / "stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::istringstream words(line);
    std::string name;
    std::array<int64_t, 8> ticks{};
    words >> name;
    for (int64_t& value : ticks) words >> value;
    if (!words) continue;
    const int64_t all = std::accumulate(ticks.begin(), ticks.end(), int64_t{0});
    times[name] = {.busy = all - ticks[kIdle] - ticks[kWaitingForDisk], .all = all};
  }
  return times;
}

}  // namespace fsdp
