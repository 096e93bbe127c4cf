#pragma once

#include <array>

#include "tests/trainer/plan/allocation_sequence.h"

namespace fsdp::test {

inline constexpr std::array kRecordedAllocations = {
    RecordedAllocations{101, 1000, false, 0, 0, 0, 28848422912, 0xc392a24cd5587cc3},
    RecordedAllocations{101, 1000, true, 0, 0, 0, 27556577280, 0x6d096414e83326c3},
    RecordedAllocations{102, 1000, false, 3, 32, 38, 3212836864, 0xb002c21d6b3ef46f},
    RecordedAllocations{102, 1000, true, 3, 27, 34, 3221225472, 0x029b949aca030197},
    RecordedAllocations{103, 4000, false, 8, 44, 54, 8581545984, 0xfe07234a8218ff3e},
    RecordedAllocations{103, 4000, true, 8, 51, 66, 8587837440, 0x7e50c46c645de7b4},
};

}  // namespace fsdp::test
