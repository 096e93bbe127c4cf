#include <catch2/catch.hpp>

#include "runner/report/columns.h"

namespace fsdp {
namespace {

ComparisonRow predicted_row(int64_t predicted_bytes) {
  ComparisonRow row;
  row.status = RunStatus::kFinished;
  row.memory_allocated_bytes_predicted = predicted_bytes;
  row.memory_allocated_bytes_max = 1000;
  return row;
}

std::string line_of(const std::vector<ComparisonRow>& rows) {
  std::vector<const ComparisonRow*> runs;
  for (const ComparisonRow& row : rows) runs.push_back(&row);
  return predictions_line(runs);
}

TEST_CASE("errors of predictions are told by their median, of an even number too, and the worst") {
  CHECK(line_of({}).empty());
  CHECK(line_of({predicted_row(990)}) ==
        "The predicted allocated memory was off by 1.0 % (median of 1 run; worst -1.0 %).");
  CHECK(line_of({predicted_row(1000), predicted_row(1040)}) ==
        "The predicted allocated memory was off by 2.0 % (median of 2 runs; worst +4.0 %).");
  CHECK(line_of({predicted_row(1020), predicted_row(1010), predicted_row(950)}) ==
        "The predicted allocated memory was off by 2.0 % (median of 3 runs; worst -5.0 %).");
}

}  // namespace
}  // namespace fsdp
