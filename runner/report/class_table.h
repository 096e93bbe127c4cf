#pragma once

#include <set>
#include <string>

#include "runner/report/report.h"

// What everybody of a class measured, whose results were merged.
namespace fsdp {

// One figure (the name or heading of a column) of one experiment: a row for each of `persons` and
// of those who have rows, a column for each point. Below it stands who has not finished which.
// Lines too long for the terminal, or for LaTeX, go on in tables below. Throws ConfigError (place:
// --class) where the rows are of several experiments.
std::string render_class(Format format, const Report& report, const std::string& figure,
                         const std::set<std::string>& persons);

}  // namespace fsdp
