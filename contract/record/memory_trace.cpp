// Thins changes of memory to a timeline that keeps every part's peak.
#include "contract/record/memory_trace.h"

#include <algorithm>

namespace fsdp {
namespace {

constexpr size_t kParts = 128;

struct Moment {
  MemoryMoment moment;
  int64_t bytes = 0;
};

void append(std::vector<MemoryMoment>& timeline, const Moment& moment) {
  if (timeline.empty() || timeline.back().allocation < moment.moment.allocation) {
    timeline.push_back(moment.moment);
  }
}

}  // namespace

std::vector<MemoryMoment> memory_timeline(std::span<const MemoryChange> changes) {
  std::vector<MemoryMoment> timeline;
  if (changes.empty()) return timeline;
  const size_t part = std::max<size_t>(1, (changes.size() + kParts - 1) / kParts);
  Moment now, least, most;
  for (size_t i = 0; i < changes.size(); ++i) {
    const MemoryChange& change = changes[i];
    now.bytes += change.added_bytes();
    now.moment.by_use[change.use] += change.added_bytes();
    now.moment.allocation = static_cast<int64_t>(i);
    if (!change.is_release) {  // a release says where its allocation was made, not this moment
      now.moment.phase = change.phase;
      now.moment.unit = change.unit;
    }
    if (i == 0) append(timeline, now);
    const bool is_first_of_part = i % part == 0;
    if (is_first_of_part || now.bytes > most.bytes) most = now;
    if (is_first_of_part || now.bytes < least.bytes) least = now;
    const bool is_last_of_part = (i + 1) % part == 0 || i + 1 == changes.size();
    if (!is_last_of_part) continue;
    const bool rises = least.moment.allocation < most.moment.allocation;
    append(timeline, rises ? least : most);
    append(timeline, rises ? most : least);
  }
  append(timeline, now);
  return timeline;
}

}  // namespace fsdp
