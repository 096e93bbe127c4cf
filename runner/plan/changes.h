#pragma once

#include <array>
#include <span>
#include <string_view>

namespace fsdp {

// What a change is of. The run computes the same, up to rounding, with changes of all parts but
// kOther; of each part it has one value.
enum class ChangedPart { kOther, kRecomputation, kSharding, kOffload };

// A change of one or two keys, and what it costs.
struct Change {
  ChangedPart part;
  std::string_view name;  // "recompute MLPs"
  std::string_view set;   // "path=value", and maybe a second one behind a space
  std::string_view cost;  // empty where it takes no memory away
};

// The least intrusive first.
std::span<const Change> changes();

}  // namespace fsdp
