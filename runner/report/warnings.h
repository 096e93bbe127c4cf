#pragma once

#include <span>
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

// Of rows that share a baseline and are shown together.
std::vector<Warning> warnings_for(Rows rows);

}  // namespace fsdp
