#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/text/fields.h"
#include "contract/record/memory_peak.h"

// How a rank's device memory rises and falls, by use. Plans and traces share it.
namespace fsdp {

// An allocation of device memory, or its release. Says what the allocation is for.
struct MemoryChange {
  int64_t address = 0;  // unique among live allocations
  int64_t bytes = 0;
  bool is_release = false;
  MemoryUse use = MemoryUse::kOther;
  MemoryPhase phase = MemoryPhase::kStart;
  std::optional<int64_t> unit{};  // number of the unit that the rank was at; null: none
  int64_t pool = 0;               // of the allocating stream; a GPU's allocator keeps pools apart
  int64_t at_ns = 0;              // since the first traced step began; 0 in plans

  // Returns the bytes that it adds to the memory in use; negative for a release.
  int64_t added_bytes() const { return is_release ? -bytes : bytes; }

  static void visit_fields(auto& self, auto&& visit) {
    visit("address", self.address);
    visit("bytes", self.bytes);
    visit("is_release", self.is_release);
    visit("use", self.use);
    visit("phase", self.phase);
    visit("unit", self.unit);
    visit("pool", self.pool);
    visit("at_ns", self.at_ns);
  }
};

// The memory that tensors request at one moment.
struct MemoryMoment {
  int64_t allocation = 0;  // the last allocation or release, counted from 0
  MemoryPhase phase = MemoryPhase::kStart;
  std::optional<int64_t> unit;  // number of the unit that the rank is at; null: none
  MemoryByUse by_use;

  static void visit_fields(auto& self, auto&& visit) {
    visit("allocation", self.allocation);
    visit("phase", self.phase);
    visit("unit", self.unit);
    MemoryByUse::visit_fields(self.by_use, visit);
  }
};

// Returns how memory rises and falls. The changes are cut into at most 128 equal parts. The
// timeline holds, in order, the first moment, the lowest and highest moment of each part, and the
// last moment.
std::vector<MemoryMoment> memory_timeline(std::span<const MemoryChange> changes);

}  // namespace fsdp
