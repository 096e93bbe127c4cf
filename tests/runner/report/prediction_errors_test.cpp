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

std::string line_of(const std::vector<ComparisonRow>& rows, bool are_brief = false) {
  std::vector<const ComparisonRow*> runs;
  for (const ComparisonRow& row : rows) runs.push_back(&row);
  return predictions_line(runs, are_brief);
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

TEST_CASE("a brief report tells only of large errors of predictions") {
  CHECK(line_of({predicted_row(1049), predicted_row(951)}, true).empty());
  CHECK_THAT(line_of({predicted_row(1000), predicted_row(940)}, true),
             Catch::Contains("worst -6.0 %"));
  ComparisonRow slow = predicted_row(1000);
  slow.step_time_ms_median = 100;
  slow.step_time_ms_predicted = 121;
  CHECK_THAT(line_of({slow}, true), Catch::Contains("step time by 21.0 %"));
  slow.step_time_ms_predicted = 119;
  CHECK(line_of({slow}, true).empty());
}

}  // namespace
}  // namespace fsdp
