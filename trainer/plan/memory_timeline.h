#pragma once

#include <span>
#include <vector>

#include "contract/plan/run_plan.h"
#include "trainer/plan/memory_recording.h"

namespace fsdp {

// How what is recorded goes up and down, by use: the first moment, the last, and of each of at most
// 128 equal parts between the one with most and the one with least, in their order.
std::vector<MemoryMoment> memory_timeline(std::span<const MemoryRecording::Entry> entries);

}  // namespace fsdp
