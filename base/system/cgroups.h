#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

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

// The memory of one cgroup, which all its processes share.
struct CgroupMemory {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  std::filesystem::path folder;
  int64_t limit_bytes = kNoLimit;  // above it the kernel ends processes, or slows them down
  int64_t limit_hits = 0;          // how often memory came to this cgroup's own limit
  int64_t kills = 0;               // processes of it that the kernel ended because memory ran out
  int64_t held_bytes = 0;          // memory of its processes now that the kernel cannot take back

  bool operator==(const CgroupMemory&) const = default;
};

// Returns the COUNT of `name` in a file of lines "NAME COUNT". nullopt if `name` is not there.
std::optional<int64_t> count_in(const std::filesystem::path& file, std::string_view name);

// This process's memory cgroup, then those around it up to the root. In a container the outermost
// visible one is the container's own. Empty if none can be read.
std::vector<CgroupMemory> memory_cgroups(const CgroupPlaces& places = {});

// The smallest memory limit of these cgroups, which all their processes share; nullopt if none.
std::optional<int64_t> cgroup_memory_limit_bytes(const CgroupPlaces& places = {});

// The memory that all processes of this process's cgroups may use together. It is the smallest
// limit of these cgroups, at most the memory of the host.
int64_t memory_available_bytes(const CgroupPlaces& places = {});

}  // namespace fsdp
