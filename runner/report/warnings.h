#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/report/series.h"

// Finds problems of a comparison, each with a remedy. Pure.
namespace fsdp {

struct Warning {
  std::string name;  // "different_device"
  std::string text;  // one line: what, in which rows, and the remedy
};

// Returns the warnings about rows that are shown together, in groups that share a baseline. Each
// warning appears once, with its findings in every group.
std::vector<Warning> warnings_for(const std::vector<SeriesRows>& groups);

}  // namespace fsdp
