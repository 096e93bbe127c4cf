#pragma once

#include <span>
#include <vector>

#include "contract/plan/run_plan.h"
#include "trainer/plan/memory_recording.h"

namespace fsdp {

// Returns how the recorded memory rises and falls, by use. The timeline is cut into at most 128
// equal parts. It holds, in order, the first moment, the lowest and highest moment of each part,
// and the last moment.
std::vector<MemoryMoment> memory_timeline(std::span<const MemoryRecording::Entry> entries);

}  // namespace fsdp
