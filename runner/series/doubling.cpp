// Finds the largest value of a doubled key that fits, from results.
#include "runner/series/doubling.h"

#include <algorithm>

#include "runner/table/names.h"

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

// Returns the result of the rows of one point.
DoublingResult result_of(const SeriesRows& rows) {
  const ComparisonRow& first = rows.front()->median;
  DoublingResult result{.name = name_without_value(first), .key = first.family_key};
  auto& [name, key, largest, smallest, may_be_larger] = result;
  std::vector<int64_t> unknown;
  for (const Series* row : rows) {
    const int64_t value = *row->median.family_value;
    if (row->median.status == RunStatus::kFinished) {
      largest = std::max(largest.value_or(value), value);
    } else if (row->median.status == RunStatus::kOutOfMemory) {
      smallest = std::min(smallest.value_or(value), value);
    } else {
      unknown.push_back(value);
    }
  }
  may_be_larger = std::ranges::any_of(unknown, [&](int64_t value) {
    return value > largest.value_or(0) && (!smallest || value < *smallest);
  });
  return result;
}

}  // namespace

std::vector<DoublingResult> doubling_results(Rows rows) {
  const auto point = [](const Series* row) {
    return std::pair(row->median.experiment, row->median.position);
  };
  return mapped(grouped(rows, point), [](const auto& alike) { return result_of(alike.second); });
}

}  // namespace fsdp
