#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/report/series.h"

// What makes a comparison less than it looks, each with what to do about it. Pure.
namespace fsdp {

struct Warning {
  std::string name;  // "different_device"
  std::string text;  // one line: what, in which rows, and the remedy
};

// Of rows that are shown together, in groups that share a baseline. Each warning is there once,
// with what it found in every group.
std::vector<Warning> warnings_for(const std::vector<SeriesRows>& groups);

}  // namespace fsdp
