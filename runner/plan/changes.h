#pragma once

#include <array>
#include <span>
#include <string_view>

namespace fsdp {

// The part of a run that a change affects. The result stays the same, up to rounding, unless the
// part is kOther. A run has at most one change of each other part.
enum class ChangedPart { kOther, kRecomputation, kSharding, kOffload };

// A change of one or two keys, and its cost.
struct Change {
  ChangedPart part;
  std::string_view name;  // "recompute MLPs"
  std::string_view set;   // "path=value", or two of them with a space between
  std::string_view cost;  // empty if the change saves no memory
};

// Returns all changes. Within a part, the least intrusive is first.
std::span<const Change> changes();

}  // namespace fsdp
