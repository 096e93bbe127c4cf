#include "runner/series/doubling_notes.h"

#include <catch2/catch.hpp>

using namespace fsdp;

namespace {

ComparisonRow doubled_row(const std::string& name, int64_t position, int64_t value,
                          RunStatus status, double step_time_ms = 0) {
  ComparisonRow row;
  row.experiment = "fit";
  row.position = position;
  row.series = name + " size_per_rank=" + std::to_string(value);
  row.point = row.series;
  row.family = name;
  row.family_key = "batch.size_per_rank";
  row.family_value = value;
  row.status = status;
  row.total_batch = 64;
  if (step_time_ms > 0) row.step_time_ms_median = step_time_ms;
  return row;
}

constexpr auto kFits = RunStatus::kFinished;
constexpr auto kDoesNot = RunStatus::kOutOfMemory;

}  // namespace

TEST_CASE("the answer of each doubled key in words, compared with the first that has one") {
  const std::vector rows{
      doubled_row("single", 0, 1, kDoesNot),        doubled_row("FSDP", 1, 1, kFits, 120),
      doubled_row("FSDP", 1, 4, kFits, 100),        doubled_row("FSDP", 1, 6, kFits, 96),
      doubled_row("FSDP", 1, 7, kDoesNot),          doubled_row("FSDP", 1, 8, kDoesNot),
      doubled_row("recomputed", 2, 4, kFits, 131),  doubled_row("recomputed", 2, 8, kFits, 125),
      doubled_row("recomputed", 2, 16, kFits, 126),
  };
  CHECK(doubling_notes(rows) ==
        std::vector<std::string>{
            "single: batch.size_per_rank 1 does not fit.",
            "FSDP: largest batch.size_per_rank that fits: 6 (7 does not). A step takes 120 ms at "
            "1, 96.0 ms at 6 (x0.80).",
            "recomputed: largest batch.size_per_rank that was run and fits: 16. A step takes 131 "
            "ms at 4, 126 ms at 16 (x0.96). Compared with FSDP, a step at 4 takes x1.31 the time, "
            "and the largest value that was run is x2.67."});
}

TEST_CASE("what is not known is said") {
  const std::vector rows{doubled_row("FSDP", 0, 1, kFits, 120),
                         doubled_row("FSDP", 0, 2, RunStatus::kFailed),
                         doubled_row("later", 1, 1, RunStatus::kPlanned)};
  CHECK(doubling_notes(rows) ==
        std::vector<std::string>{
            "FSDP: largest batch.size_per_rank that was run and fits: 1; 2: failed.",
            "later: no run has a result for batch.size_per_rank; 1: planned."});
}

TEST_CASE("a value that failed between what fits and what does not may fit") {
  const std::vector rows{
      doubled_row("FSDP", 0, 1, kFits),     doubled_row("FSDP", 0, 2, RunStatus::kFailed),
      doubled_row("FSDP", 0, 4, kDoesNot),  doubled_row("later", 1, 2, RunStatus::kRunning),
      doubled_row("later", 1, 4, kDoesNot), doubled_row("above", 2, 1, kFits),
      doubled_row("above", 2, 2, kDoesNot), doubled_row("above", 2, 4, RunStatus::kFailed)};
  CHECK(doubling_notes(rows) ==
        std::vector<std::string>{
            "FSDP: largest batch.size_per_rank that was run and fits: 1 (4 does not); 2: failed.",
            "later: batch.size_per_rank 4 does not fit; 2: running.",
            "above: largest batch.size_per_rank that fits: 1 (2 does not); 4: failed. "
            "Compared with FSDP, the largest value that was run is x1.00."});
  CHECK(largest_that_fit(rows) ==
        std::vector<std::string>{"largest batch.size_per_rank that fits: 1 for FSDP so far, none "
                                 "for later so far, 1 for above"});
}

TEST_CASE("step times are compared at equal totals only, series within their experiment") {
  std::vector rows{doubled_row("FSDP", 0, 1, kFits, 120), doubled_row("FSDP", 0, 2, kFits, 240),
                   doubled_row("again", 0, 1, kFits, 99)};
  rows[1].total_batch = 128;
  rows[2].experiment = "another";
  CHECK(doubling_notes(rows) ==
        std::vector<std::string>{"FSDP: largest batch.size_per_rank that was run and fits: 2.",
                                 "again: largest batch.size_per_rank that was run and fits: 1."});
}

TEST_CASE("repeats and lengthened labels keep their names; other rows have no note") {
  std::vector rows{doubled_row("FSDP", 0, 1, kDoesNot), doubled_row("long", 1, 1, kDoesNot),
                   ComparisonRow{}};
  rows[0].point += " #2";
  rows[1].series = rows[1].point = "long batch.size_per_rank=1";
  CHECK(doubling_notes(rows) ==
        std::vector<std::string>{"FSDP #2: batch.size_per_rank 1 does not fit.",
                                 "long: batch.size_per_rank 1 does not fit."});
}
