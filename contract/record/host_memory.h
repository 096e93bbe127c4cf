#pragma once

#include <algorithm>
#include <array>
#include <string_view>

// The words by which reasons say that the host's memory ran out, not a GPU's or the run's own
// limit. Programs write these words. Reports look for them.
namespace fsdp {

inline constexpr std::string_view kOutOfHostMemory = "out of memory on the host";
inline constexpr std::string_view kRefusedBySystem = "none, the system refused";  // as a limit
inline constexpr std::string_view kCgroupLimit =
    "the memory limit of its job or container (cgroup)";
inline constexpr std::string_view kSlurmLimitReached =
    "the job's memory limit (slurm.mem) was reached";

inline bool says_host_memory(std::string_view reason) {
  constexpr std::array kWords{kOutOfHostMemory, kRefusedBySystem, kCgroupLimit, kSlurmLimitReached};
  return std::ranges::any_of(
      kWords, [&](std::string_view words) { return reason.find(words) != std::string_view::npos; });
}

}  // namespace fsdp
