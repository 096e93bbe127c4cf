#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

// True if stdout is a terminal and its user wants colours.
bool stdout_has_colour();
// Returns the terminal's width, or COLUMNS (which watch sets); 0: any width.
size_t stdout_columns();

// Adds the rows and notes of these experiments; an empty list means all in the results. Leaves out
// runs with an attempt started before `since_unix_ms`. Listed::kEver also adds measured runs that
// have left their experiment's list, named by the keys that changed.
void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms = {}, Listed listed = Listed::kNow);

}  // namespace fsdp
