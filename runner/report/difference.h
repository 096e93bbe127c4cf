#pragma once

#include <string>

#include "runner/report/columns.h"

// Two runs side by side, a row per column in which they differ.
namespace fsdp {

struct Difference {
  Column column;  // with a heading
  ReportRow first, second;
};

// `report` holds these two runs and no others. Throws std::logic_error otherwise.
std::string render_differences(Format format, const Report& report);

}  // namespace fsdp
