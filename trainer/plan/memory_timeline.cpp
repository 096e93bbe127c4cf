// Thins recorded allocations to a timeline that keeps every part's peak.
#include "trainer/plan/memory_timeline.h"

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

std::vector<MemoryMoment> memory_timeline(std::span<const MemoryRecording::Entry> entries) {
  std::vector<MemoryMoment> timeline;
  if (entries.empty()) return timeline;
  const size_t part = std::max<size_t>(1, (entries.size() + kParts - 1) / kParts);
  Moment now, least, most;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [id, bytes, label, is_release] = entries[i];
    const int64_t change = is_release ? -bytes : bytes;
    now.bytes += change;
    now.moment.by_use[label.use] += change;
    now.moment.allocation = static_cast<int64_t>(i);
    if (!is_release) {  // a release has the label of its allocation, not of this moment
      now.moment.phase = label.phase;
      now.moment.unit =
          label.unit == kNoMemoryUnit ? std::nullopt : std::optional(int64_t{label.unit});
    }
    if (i == 0) append(timeline, now);
    const bool is_first_of_part = i % part == 0;
    if (is_first_of_part || now.bytes > most.bytes) most = now;
    if (is_first_of_part || now.bytes < least.bytes) least = now;
    const bool is_last_of_part = (i + 1) % part == 0 || i + 1 == entries.size();
    if (!is_last_of_part) continue;
    const bool rises = least.moment.allocation < most.moment.allocation;
    append(timeline, rises ? least : most);
    append(timeline, rises ? most : least);
  }
  append(timeline, now);
  return timeline;
}

}  // namespace fsdp
