#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "contract/record/cgroups.h"

namespace fsdp {

// How many processes the kernel has ended since the host started because memory ran out, the host's
// or that of a job or container: oom_kill of /proc/vmstat, since Linux 4.13. Absent: not known.
std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file = "/proc/vmstat");

// What the kernel did for the memory limit of a cgroup.
struct LimitKills {
  int64_t limit_bytes = 0;
  int64_t count = 0;       // processes that it ended, of all that share the limit
  int64_t held_bytes = 0;  // under the limit afterwards
};

// The memory limit for which the kernel ended a process of this process's own cgroup between
// `before` and `after`; the smallest, if it was more than one. nullopt: no process was ended, or
// none for a cgroup's limit, as far as the kernel tells.
std::optional<LimitKills> limit_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after);

}  // namespace fsdp
