#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/report/report.h"

// What everybody of a class measured, whose results were merged.
namespace fsdp {

// Figures (names or headings of columns, and every usual one with View::wide) of one experiment. A
// block for each figure has a row for each of `persons` and of those who have rows, and a column
// for each point. A `*` marks figures of other settings, versions or machines than most.
// Below stand warnings, who has not finished which point, and what the marked ones differ in.
// Lines too long for the terminal, or for LaTeX, go on in tables below. Throws ConfigError (place:
// --class) where the rows are of several experiments.
std::string render_class(Format format, const Report& report,
                         const std::vector<std::string>& figures,
                         const std::set<std::string>& persons);

}  // namespace fsdp
