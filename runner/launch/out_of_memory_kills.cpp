#include "runner/launch/out_of_memory_kills.h"

#include <algorithm>

namespace fsdp {

std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file) {
  return count_in(file, "oom_kill");
}

std::optional<int64_t> limit_of_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after) {
  const bool are_the_same =
      std::ranges::equal(before, after, {}, &CgroupMemory::folder, &CgroupMemory::folder);
  if (!are_the_same || after.empty() || after.front().kills <= before.front().kills) {
    return std::nullopt;
  }
  std::optional<int64_t> limit;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool was_hit = after[i].limit_hits > before[i].limit_hits;
    if (!was_hit || after[i].limit_bytes == CgroupMemory::kNoLimit) continue;
    limit = std::min(limit.value_or(after[i].limit_bytes), after[i].limit_bytes);
  }
  return limit;
}

}  // namespace fsdp
