#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "runner/store/database.h"
#include "tests/runner/store/store_fixture.h"

// Results of earlier versions, in tests/golden as the sqlite3 program dumped them.
namespace fsdp {
namespace {

void write_version_2(const ResultsFolder& results) {
  std::stringstream sql;
  sql << std::ifstream(std::string(FSDP_GOLDEN_FOLDER) + "/results_version2.sql").rdbuf();
  Database(results.database()).execute(sql.str());
}

}  // namespace

TEST_CASE("results of version 2 keep every figure, and new columns say what those runs did") {
  const ResultsFolder results;
  write_version_2(results);
  const auto rows = Store(results.path()).comparison("lab");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].point == "1 GPU");
  CHECK(rows[0].steps == 3);
  CHECK(rows[0].loss_last == 5.0 / 3);
  CHECK(rows[0].sharding.empty());
  CHECK(rows[1].sharding == "full_shard");
  CHECK(rows[1].precision == "bf16_true");
  CHECK(rows[1].wrap == "transformer_block");
  CHECK(rows[1].prefetch == 1);
  CHECK(rows[1].limit_all_gathers);
  CHECK(rows[1].optimizer == OptimizerKind::kAdamW);
  CHECK(rows[1].schedule == ScheduleKind::kConstant);
  CHECK(rows[1].resumed_from_step == 0);
  CHECK(rows[1].skipped_steps == 0);
  CHECK(rows[1].non_finite_steps == 1);
  CHECK_FALSE(rows[1].validation_loss_last);
  CHECK(rows[2].status == RunStatus::kFailed);
  CHECK(rows[2].reason_rank == 1);
  Database database(results.database());
  CHECK(Statement(database, "pragma user_version").value<int>() == 4);
  CHECK(Statement(database, "select count(*) from steps where not skipped").value<int>() == 13);
  CHECK(Statement(database, "pragma integrity_check").value<std::string>() == "ok");
}

TEST_CASE("a run of version 2 gets another attempt, with what it can report now") {
  const ResultsFolder results;
  write_version_2(results);
  Store store(results.path());
  CHECK(store.begin_attempt(3, attempt_start()) == 2);
  StepDone done = step_done(1, 10);
  done.skipped = true;
  store.ingest(3, 2, 0,
               std::vector{event(0, 5, RunStarted{}), event(1, 6, done),
                           event(2, 7, EvaluationDone{.step = 1, .loss = 2.5})});
  store.ingest(3, 2, 1, std::vector{event(0, 5, RunStarted{}), event(1, 6, done)});
  store.end_attempt(3, 2, RunStatus::kFinished, "", 9);
  const ComparisonRow row = store.comparison("lab").at(2);
  CHECK(row.status == RunStatus::kFinished);
  CHECK(row.skipped_steps == 1);
  CHECK(row.validation_loss_best == 2.5);
}

TEST_CASE("a database of version 1 is brought up to date and keeps what it holds") {
  const ResultsFolder results;
  write_version_2(results);
  Database(results.database())
      .execute(
          "drop view comparison_per_rank; "
          "create view comparison_per_rank as select c.*, k.rank from comparison c "
          "join ranks k on k.run = c.run and k.attempt = c.attempt; "
          "delete from steps where run = 1; delete from ranks where run = 1; "
          "pragma user_version = 1");
  Store store(results.path());
  const auto rows = store.comparison_per_rank("lab");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].attempt == 1);
  CHECK_FALSE(rows[0].rank);
  CHECK(rows[1].rank == 0);
  CHECK(store.comparison("lab").at(1).sharding == "full_shard");
}

}  // namespace fsdp
