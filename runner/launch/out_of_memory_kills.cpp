#include "runner/launch/out_of_memory_kills.h"

#include <algorithm>

namespace fsdp {

std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file) {
  return count_in(file, "oom_kill");
}

std::optional<LimitKills> limit_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after) {
  const bool are_the_same =
      std::ranges::equal(before, after, {}, &CgroupMemory::folder, &CgroupMemory::folder);
  if (!are_the_same || after.empty() || after.front().kills <= before.front().kills) {
    return std::nullopt;
  }
  // In version 1, a cgroup does not count kills in the cgroups below it.
  const int64_t own_kills = after.front().kills - before.front().kills;
  std::optional<LimitKills> found;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool was_hit = after[i].limit_hits > before[i].limit_hits;
    if (!was_hit || after[i].limit_bytes == CgroupMemory::kNoLimit) continue;
    if (found && found->limit_bytes <= after[i].limit_bytes) continue;
    found = {.limit_bytes = after[i].limit_bytes,
             .count = std::max(own_kills, after[i].kills - before[i].kills),
             .held_bytes = after[i].held_bytes};
  }
  return found;
}

KillCounts kill_counts() { return {.of_host = out_of_memory_kills(), .cgroups = memory_cgroups()}; }

void KillsBefore::note(KillCounts counts, Clock::time_point now) {
  counts_ = std::exchange(later_, std::move(counts));
  later_at_ = now;
}

}  // namespace fsdp
