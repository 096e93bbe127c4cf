#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace fsdp {

// The busy time and the whole time of a processor since the host's start, in the kernel's ticks.
struct ProcessorTime {
  int64_t busy = 0;
  int64_t all = 0;
};

// Returns times by the names in the kernel's file `stat`: "cpu" is the whole host, "cpu0" its first
// processor. Empty if the file has none.
std::map<std::string, ProcessorTime> processor_times(const std::filesystem::path& proc);

}  // namespace fsdp
