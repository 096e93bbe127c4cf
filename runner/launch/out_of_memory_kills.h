#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fsdp {

// How many processes the kernel has ended since the host started because memory ran out, the host's
// or that of a job or container: oom_kill of /proc/vmstat, since Linux 4.13. Absent: not known.
std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file = "/proc/vmstat");

// How often memory came to the limit of a cgroup that this process is in, a job's or a container's:
// `oom` of memory.events or, in version 1, memory.failcnt. 0 also where that cannot be read.
int64_t memory_limit_hits(const std::filesystem::path& own_cgroups = "/proc/self/cgroup",
                          const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace fsdp
