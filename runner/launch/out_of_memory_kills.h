#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "contract/record/cgroups.h"

namespace fsdp {

// The number of processes killed by the kernel since boot because memory of the host, a job or a
// container ran out: oom_kill of /proc/vmstat, since Linux 4.13. nullopt: unknown.
std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file = "/proc/vmstat");

// The processes that the kernel killed for the memory limit of a cgroup.
struct LimitKills {
  int64_t limit_bytes = 0;
  int64_t count = 0;       // killed processes that shared the limit
  int64_t held_bytes = 0;  // under the limit afterwards
};

// The memory limit for which the kernel killed a process of this process's own cgroup between
// `before` and `after`. Returns the smallest of several limits. nullopt: no process was killed, or
// none because of a cgroup's limit, as far as the kernel tells.
std::optional<LimitKills> limit_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after);

// The kernel's counts of kills at one time.
struct KillCounts {
  std::optional<int64_t> of_host;
  std::vector<CgroupMemory> cgroups;
};
KillCounts kill_counts();

// Keeps the counts of kills from shortly before now. A user's `kill -9` is then not blamed on a
// kill by the kernel hours ago.
class KillsBefore {
 public:
  using Clock = std::chrono::steady_clock;
  // Longer than ranks take to end after one is killed.
  static constexpr std::chrono::seconds kInterval{30};

  KillsBefore(KillCounts counts, Clock::time_point now)
      : counts_(counts), later_(std::move(counts)), later_at_(now) {}

  bool is_due(Clock::time_point now) const { return now >= later_at_ + kInterval; }
  // Call note() when is_due() is true.
  void note(KillCounts counts, Clock::time_point now);
  // Returns the counts from one to two intervals ago, or from the beginning if that is later.
  const KillCounts& counts() const { return counts_; }

 private:
  KillCounts counts_;
  KillCounts later_;
  Clock::time_point later_at_;
};

}  // namespace fsdp
