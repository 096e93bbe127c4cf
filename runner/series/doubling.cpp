// Finds the largest value of a doubled key that fits, from results.
#include "runner/series/doubling.h"

#include <algorithm>

namespace fsdp {

std::string name_without_value(const ComparisonRow& row) {
  const std::string value = '=' + std::to_string(row.family_value.value_or(0));
  const std::string of_repeat = row.point.substr(std::min(row.series.size(), row.point.size()));
  for (const std::string& label :
       {row.family_key, row.family_key.substr(row.family_key.rfind('.') + 1)}) {
    const std::string suffix = ' ' + label + value;
    if (row.series.ends_with(suffix)) {
      return row.series.substr(0, row.series.size() - suffix.size()) + of_repeat;
    }
  }
  return row.point;
}

namespace {

// True if a value that may fit is larger than all that are known to fit.
bool may_be_larger(const DoublingResult& doubled, std::span<const ComparisonRow> rows) {
  return std::ranges::any_of(rows, [&](const ComparisonRow& row) {
    const bool is_known =
        row.status == RunStatus::kFinished || row.status == RunStatus::kOutOfMemory;
    return row.family_value && row.experiment == doubled.experiment &&
           row.position == doubled.position && !is_known &&
           *row.family_value > doubled.largest_that_fits.value_or(0) &&
           (!doubled.smallest_that_does_not || *row.family_value < *doubled.smallest_that_does_not);
  });
}

}  // namespace

std::vector<DoublingResult> doubling_results(std::span<const ComparisonRow> rows) {
  std::vector<DoublingResult> all;
  for (const ComparisonRow& row : rows) {
    if (!row.family_value) continue;
    auto found = std::ranges::find_if(all, [&](const DoublingResult& other) {
      return other.experiment == row.experiment && other.position == row.position;
    });
    if (found == all.end()) {
      all.push_back({row.experiment, row.position, name_without_value(row), row.family_key});
      found = std::prev(all.end());
    }
    if (row.status == RunStatus::kFinished) {
      auto& largest = found->largest_that_fits;
      largest = std::max(largest.value_or(*row.family_value), *row.family_value);
    } else if (row.status == RunStatus::kOutOfMemory) {
      auto& smallest = found->smallest_that_does_not;
      smallest = std::min(smallest.value_or(*row.family_value), *row.family_value);
    }
  }
  for (DoublingResult& doubled : all) doubled.may_be_larger = may_be_larger(doubled, rows);
  return all;
}

}  // namespace fsdp
