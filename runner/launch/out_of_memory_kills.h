#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fsdp {

// How many processes the kernel has ended since the host started because memory ran out, the host's
// or that of a job or container: oom_kill of /proc/vmstat, since Linux 4.13. Absent: not known.
std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file = "/proc/vmstat");

}  // namespace fsdp
