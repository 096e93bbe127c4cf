#pragma once

#include <algorithm>
#include <array>
#include <string_view>

// Phrases in reasons of failures that say that the host's memory ran out, not a GPU's and not the
// run's own limit. Programs write them. `judge` and reports look for them.
namespace fsdp {

inline constexpr std::string_view kNoHostMemory = "out of memory on the host";
inline constexpr std::string_view kRefusedBySystem = "none, the system refused";  // after "limit "
inline constexpr std::string_view kCgroupLimit =
    "the memory limit of its job or container (cgroup)";
inline constexpr std::string_view kMemoryKill =
    "memory of the host, or of its job or container (cgroup), ran out";
inline constexpr std::string_view kSlurmLimitReached =
    "the job's memory limit (slurm.mem) was reached";

inline bool says_host_memory(std::string_view reason) {
  constexpr std::array kWords{kNoHostMemory, kRefusedBySystem, kCgroupLimit, kMemoryKill,
                              kSlurmLimitReached};
  return std::ranges::any_of(
      kWords, [&](std::string_view words) { return reason.find(words) != std::string_view::npos; });
}

}  // namespace fsdp
