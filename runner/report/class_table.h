#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/report/report.h"

// The merged results of a class.
namespace fsdp {

// Returns tables of figures (names or headings of columns) for one experiment. View::wide adds
// every usual column. Each figure has a block with a row for each of `persons` and of those who
// have rows, and a column for each point. A `*` marks figures whose settings, versions or machines
// differ from most others. Below the tables are warnings, the points that each person has not
// finished, and the marked differences. Lines too long for the terminal or LaTeX continue in tables
// below. Throws ConfigError (place: --class) if the rows are of several experiments.
std::string render_class(Format format, const Report& report,
                         const std::vector<std::string>& figures,
                         const std::set<std::string>& persons);

}  // namespace fsdp
