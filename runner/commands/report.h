#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

// Adds the rows and notes of these experiments; an empty list means all in the results. With
// `since_unix_ms`, leaves out runs without an attempt since then. Listed::kEver also adds measured
// runs that have left their experiment's list, named by the keys that changed.
void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms = {}, Listed listed = Listed::kNow);

}  // namespace fsdp
