#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

// Whether stdout is a terminal whose user wants colours.
bool stdout_has_colour();
// Of the terminal, or as COLUMNS says (watch sets it); 0: of any width.
size_t stdout_columns();

// Adds the rows and notes of these experiments; none: of every one in the results. Leaves out runs
// whose attempt was started before `since_unix_ms`. With Listed::kEver runs that were measured and
// are no longer in their experiment's list are rows too, named by what changed.
void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms = {}, Listed listed = Listed::kNow);

}  // namespace fsdp
