#include <catch2/catch.hpp>

#include "runner/commands/status.h"

namespace fsdp {
namespace {

TEST_CASE("status says who submits the next value of a doubled key") {
  std::vector<ComparisonRow> rows(2);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].experiment = "lab";
    rows[i].position = 3;
    rows[i].point = rows[i].series = "FSDP size_per_rank=" + std::to_string(4 << i);
    rows[i].family_key = "batch.size_per_rank";
    rows[i].family_value = 4 << i;
    rows[i].status = RunStatus::kFinished;
  }
  CHECK(doubling_outlook(rows).empty());  // no job, so no outlook
  rows[0].slurm_job = "12_0";
  CHECK_THAT(doubling_outlook(rows),
             Catch::StartsWith("lab: FSDP: batch.size_per_rank=8 fits; the next call"));
  rows[1].status = RunStatus::kQueued;
  CHECK_THAT(doubling_outlook(rows), Catch::StartsWith("lab: FSDP: batch.size_per_rank=8: ") &&
                                         Catch::Contains("when its result is known"));
  rows[1].status = RunStatus::kOutOfMemory;
  CHECK(doubling_outlook(rows).empty());
  rows[1].status = RunStatus::kFailed;
  CHECK(doubling_outlook(rows).empty());
}

TEST_CASE("status names the point whose next value it speaks of") {
  std::vector<ComparisonRow> rows(2);
  const std::vector<std::string> points = {"FSDP", "FSDP, checkpointing"};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].experiment = "chess";
    rows[i].position = static_cast<int64_t>(i);
    rows[i].point = rows[i].series = points[i] + " size_per_rank=1";
    rows[i].family_key = "batch.size_per_rank";
    rows[i].family_value = 1;
    rows[i].status = RunStatus::kQueued;
  }
  rows[1].point += " #2";
  const std::string lines = doubling_outlook(rows);
  CHECK_THAT(lines, Catch::StartsWith("chess: FSDP: batch.size_per_rank=1: when its"));
  CHECK_THAT(lines,
             Catch::Contains("\nchess: FSDP, checkpointing #2: batch.size_per_rank=1: when its"));
}

}  // namespace
}  // namespace fsdp
