#include <fmt/format.h>

#include "tests/runner/report/report_fixture.h"

// Answers about the many rows of a sweep.
namespace fsdp {
namespace {

// A sweep of 2 strategies x 4 batches. Speed doubles with the batch. Losses depend only on the
// batch.
Report sweep() {
  Report report;
  for (const char* strategy : {"ddp", "fsdp"}) {
    for (const int64_t batch : {1, 2, 4, 8}) {
      const auto run = static_cast<int64_t>(report.rows.size()) + 1;
      ComparisonRow row = finished_row(run, fmt::format("sweep kind={} size={}", strategy, batch),
                                       StrategyKind::kFsdp, 2, 100);
      row.tokens_per_second = static_cast<double>(100 * batch);
      row.memory_allocated_bytes_max = (9 + batch) * kGibibyte;
      row.total_batch = batch;
      row.loss_digest = std::to_string(batch);
      row.loss_last = 2 + 0.1 * static_cast<double>(batch);
      row.spec = fmt::format(
          R"({{"strategy": {{"kind": "{}"}}, "batch": {{"size_per_rank": {}}}}})", strategy, batch);
      report.rows.push_back(row);
    }
  }
  return report;
}

TEST_CASE("names leave out the words that all rows of an experiment begin with") {
  Report report = sweep();
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("least memory: kind=ddp size=1 and kind=fsdp size=1, 10.0 GiB"));
  report.rows[0].point = report.rows[0].series = "another";
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("least memory: another and sweep kind=fsdp size=1, 10.0 GiB"));
  report.rows.resize(1);
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("100 tokens/s, 100 ms a step"));
}

TEST_CASE("many pairs of rows are told as what lies between the least and the most") {
  CHECK_THAT(
      render(Format::kTable, sweep()),
      Catch::Contains("Batch: over 6 pairs of rows: memory x1.10 to x1.70, tokens/s x2.00 to "
                      "x8.00\n"));
  Report report = sweep();
  report.rows[1].tokens_per_second = 101;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("to x8.00 (1 within noise)\n"));
  report.rows[4].cpu_time_others_percent = report.rows[4].run_queue_wait_percent = 50;
  CHECK_THAT(
      render(Format::kTable, report),
      Catch::Contains("memory x1.10 to x1.70, tokens/s x1.01 to x8.00 (1 within noise), 3 pairs "
                      "not compared by speed, because other processes took CPU time\n"));
}

TEST_CASE(
    "of many groups of rows with equal losses one sentence is said, of those that part their own") {
  CHECK_THAT(
      render(Format::kTable, sweep()),
      Catch::Contains(
          "Loss:  8 runs form 4 groups that compute the same thing; within each group losses are "
          "equal at every step that was compared\n"));
  Report report = sweep();
  report.rows[4].loss_last = 2.3;
  CHECK_THAT(
      render(Format::kTable, report),
      Catch::Contains(
          "Loss:  kind=ddp size=1 and kind=fsdp size=1 do not agree: kind=ddp "
          "size=1 2.1, kind=fsdp size=1 2.3 at step 100; 6 runs form 3 groups that "
          "compute the same thing; within each group losses are equal at every step that was "
          "compared\n"));
}

}  // namespace
}  // namespace fsdp
