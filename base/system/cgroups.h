#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

// Reads the limits of this process's cgroups, such as its container's or job's (versions 1 and 2).
namespace fsdp {

// The paths where the kernel shows cgroups.
struct CgroupPlaces {
  std::filesystem::path own = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// The smallest CPU quota of this process's cgroups and of those around them, in cores. Infinite if
// there is none.
double cgroup_cores(const CgroupPlaces& places = {});

// The number of this cgroup's processes that the kernel has killed because memory ran out. The
// memory may have been the cgroup's or the host's. 0 if the number cannot be read.
int64_t memory_kills(const CgroupPlaces& places = {});

// The smallest memory limit of this process's cgroups, which all their processes share; nullopt if
// none.
std::optional<int64_t> cgroup_memory_limit_bytes(const CgroupPlaces& places = {});

// The memory that all processes of this process's cgroups may use together. It is the smallest
// limit of these cgroups, at most the memory of the host.
int64_t memory_available_bytes(const CgroupPlaces& places = {});

}  // namespace fsdp
