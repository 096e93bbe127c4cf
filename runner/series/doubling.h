#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/series/series.h"

namespace fsdp {

// Returns the point of a doubled key's run without the value: "FSDP" for "FSDP size_per_rank=8",
// "FSDP #2" for its second repeat.
std::string name_without_value(const ComparisonRow& row);

// The result of the runs of one point about a doubled key.
struct DoublingResult {
  std::string name{};  // of the point, without the value
  std::string key{};   // "batch.size_per_rank"
  std::optional<int64_t> largest_that_fits{};
  std::optional<int64_t> smallest_that_does_not{};
  bool may_be_larger = false;  // a larger value may fit, but its run has no result
};

// Returns an entry for each point, in the order of the rows. All rows have a doubled key.
std::vector<DoublingResult> doubling_results(Rows rows);

}  // namespace fsdp
