#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace fsdp {

// How long processors were busy, of all the time since the host's start, in the kernel's ticks.
struct ProcessorTime {
  int64_t busy = 0;
  int64_t all = 0;
};

// By the names in the kernel's file `stat`: "cpu" is the whole host, "cpu0" its first processor.
// Empty: the file does not say.
std::map<std::string, ProcessorTime> processor_times(const std::filesystem::path& proc);

}  // namespace fsdp
