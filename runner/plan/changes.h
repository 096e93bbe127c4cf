#pragma once

#include <span>
#include <string_view>

namespace fsdp {

// A change of one or two keys that takes memory away, and what it costs.
struct Change {
  std::string_view name;  // "recompute MLPs"
  std::string_view set;   // "path=value", and maybe a second one behind a space
  std::string_view cost;
};

// The least intrusive first.
std::span<const Change> changes_that_save_memory();

}  // namespace fsdp
