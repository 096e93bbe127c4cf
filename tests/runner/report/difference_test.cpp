#include <nlohmann/json.hpp>

#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

Report two_runs() {
  Report report;
  report.rows = {finished_row(1, "4xDDP", StrategyKind::kDdp, 4, 200),
                 finished_row(2, "4xFSDP", StrategyKind::kFsdp, 4, 250)};
  report.rows[1].memory_allocated_bytes_max = 2 * kGibibyte;
  report.rows[1].memory_allocated_bytes_min = 2 * kGibibyte;
  report.rows[1].loss_last.reset();
  report.notes = {"A note."};
  return report;
}

TEST_CASE("two runs are compared in the columns in which they differ") {
  const auto rows = nlohmann::json::parse(render_differences(Format::kJson, two_runs()))["rows"];
  std::map<std::string, nlohmann::json> by_column;
  for (const auto& row : rows) by_column[row["column"]] = row;
  CHECK(by_column.at("strategy")["first"] == "ddp");
  CHECK(by_column.at("strategy")["second"] == "fsdp");
  CHECK(by_column.at("strategy")["ratio"].is_null());
  CHECK(by_column.at("step_time_ms_median")["ratio"] == 1.25);
  CHECK(by_column.at("memory_allocated_bytes_max")["second"] == 2 * kGibibyte);
  CHECK(by_column.at("loss_last")["second"].is_null());
  for (const std::string name : {"ranks", "point", "run", "hash8", "tokens_per_second_ratio"}) {
    INFO(name);
    CHECK_FALSE(by_column.contains(name));
  }
}

TEST_CASE("a comparison of two runs is a table too, with warnings and notes") {
  Report report = two_runs();
  report.rows[1].device_name = "another processor";
  const std::string table = render_differences(Format::kTable, report);
  CHECK_THAT(table, Catch::Contains("4xDDP") && Catch::Contains("4xFSDP") &&
                        Catch::Contains("\nallocated GiB ") && Catch::Contains("x1.25"));
  CHECK_THAT(table, Catch::Contains("Warning: rows ran on different devices"));
  CHECK_THAT(table, Catch::EndsWith("A note.\n"));
  report.rows.pop_back();
  CHECK_THROWS_AS(render_differences(Format::kTable, report), std::logic_error);
}

}  // namespace
}  // namespace fsdp
