#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "runner/store/database.h"
#include "tests/runner/store/store_fixture.h"

// Results of earlier versions, in tests/golden as the sqlite3 program dumped them, and beside them
// the rows that a comparison must have.
namespace fsdp {
namespace {

std::string bytes_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

std::string golden(const std::string& name) {
  return bytes_of(std::string(FSDP_GOLDEN_FOLDER) + "/" + name);
}

void write_version(const ResultsFolder& results, int version) {
  const std::string name = "results_version" + std::to_string(version) + ".sql";
  Database(results.database()).execute(golden(name));
}

constexpr int kApplicationId = 0x66736470;

// The rows of the view `comparison`, their columns in the order of the versions that added them.
std::string comparison_of(const ResultsFolder& results) {
  return sqlite3(
      results,
      "select experiment,run,hash8,position,point,strategy,offload,ranks,batch_size_per_rank,"
      "gradient_accumulation_steps,total_batch,precision,device,sequence_length,"
      "activation_checkpointing_every,warmup_steps_excluded,folder,attempt,status,reason,"
      "reason_rank,device_name,steps,step_time_ms_median,step_time_ms_p25,step_time_ms_p75,"
      "steps_per_second,micro_batches_per_second,tokens_per_second,memory_allocated_bytes_max,"
      "memory_allocated_bytes_min,memory_reserved_bytes_max,memory_reserved_bytes_min,loss_first,"
      "loss_last,total_time_ms,start_up_time_ms, "
      "sharding,wrap,prefetch,limit_all_gathers,optimizer,schedule,resumed_from_step,skipped_steps,"
      "non_finite_steps,validation_loss_first,validation_loss_last,validation_loss_best,"
      "token_accuracy_last,checkpoint_write_time_ms_median, "
      "series,repeat,data_digest,loss_digest,family,family_key,family_value,memory_limit_gib,"
      "compare,host,git_commit,git_dirty,trainer_digest,torch_version,cuda_version,driver_version,"
      "steps_planned,device_memory_bytes,other_processes,memory_allocated_bytes_forward_max,"
      "memory_allocated_bytes_forward_min,memory_reserved_bytes_forward_max,"
      "communication_time_ms_median,gpu_utilization_percent_mean,cpu_utilization_percent_mean,"
      "energy_joules from comparison");
}

void check_is_whole(const ResultsFolder& results) {
  Database database(results.database());
  CHECK(Statement(database, "pragma user_version").value<int>() == 6);
  CHECK(Statement(database, "pragma application_id").value<int>() == kApplicationId);
  CHECK(Statement(database, "pragma integrity_check").value<std::string>() == "ok");
  CHECK_FALSE(Statement(database, "pragma foreign_key_check").value<std::string>());
}

}  // namespace

TEST_CASE("results of version 1 keep every figure") {
  const ResultsFolder results;
  write_version(results, 1);
  const Store store(results.path());
  CHECK(comparison_of(results) == golden("results_version1.csv"));
  const auto ranks = store.comparison_per_rank("lab");
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].rank == 0);
  CHECK(ranks[1].attempt == 1);
  CHECK_FALSE(ranks[1].rank);
  CHECK_THAT(store.spec_text(3),
             Catch::StartsWith("model:\n") && Catch::EndsWith("memory_limit_gib: 0.25\n"));
  check_is_whole(results);
}

TEST_CASE("results of version 3 keep every figure, and new columns say what was recorded") {
  const ResultsFolder results;
  write_version(results, 3);
  const Store store(results.path());
  CHECK(comparison_of(results) == golden("results_version3.csv"));
  CHECK(count(results, "steps") == 23);
  CHECK(store.steps(2, 1).at(5).body.memory_allocated_bytes_forward == 1'500'000);
  CHECK(store.evaluations(1, 1).size() == 2);
  CHECK(store.checkpoints(2, 1).at(1).body.path == "checkpoints/step-4");
  CHECK(store.device_samples(1, 1).size() == 3);
  CHECK(store.rank_facts(2, 1).at(1).device_name == "stub");
  CHECK(store.attempts(4).at(0).reason_rank == 1);
  CHECK(store.provenance(1, 1).environment == "{}");
  CHECK(store.experiment_text(1, 1).empty());
  check_is_whole(results);
}

TEST_CASE("results of version 2 keep every figure, and new columns say what those runs did") {
  const ResultsFolder results;
  write_version(results, 2);
  { const Store store(results.path()); }
  CHECK(comparison_of(results) == golden("results_version2.csv"));
  CHECK(count(results, "steps where not skipped") == 13);
  check_is_whole(results);
}

TEST_CASE("results of version 4 keep every figure and have no jobs") {
  const ResultsFolder results;
  write_version(results, 4);
  const Store store(results.path());
  CHECK(comparison_of(results) == golden("results_version4.csv"));
  CHECK(count(results, "steps") == 35);
  CHECK(store.open_jobs("").empty());
  CHECK(store.jobs_of_run(1).empty());
  const auto samples = store.device_samples(3, 1);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].body.memory_total_bytes == 17'179'869'184);
  CHECK_FALSE(samples[0].body.cpu_count);
  CHECK_FALSE(samples[0].body.memory_free_bytes);
  const auto attempts = store.attempts(6);
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].status == RunStatus::kInterrupted);
  CHECK(attempts[1].slurm_job.empty());
  const auto statuses = store.statuses("lab");
  REQUIRE(statuses.size() == 8);
  CHECK(statuses[6].attempt == 2);
  CHECK(statuses[6].slurm_job.empty());
  CHECK(statuses[7].slurm_job.empty());
  check_is_whole(results);
}

TEST_CASE("results of version 5 keep every figure and jobs, and have digests of files no more") {
  const ResultsFolder results;
  write_version(results, 5);
  const Store store(results.path());
  CHECK(comparison_of(results) == golden("results_version5.csv"));
  CHECK(count(results, "steps") == 35);
  CHECK(count(results, "file_digests") == 0);
  for (const ComparisonRow& row : store.comparison("lab")) CHECK(row.skipped_lines == 0);
  REQUIRE(store.open_jobs("lab").size() == 1);
  CHECK(store.open_jobs("lab")[0].slurm_job == "13");
  CHECK(store.attempts(6).at(0).status == RunStatus::kTimeLimit);
  CHECK(store.attempts(3).at(0).slurm_job == "12_0");
  CHECK(store.device_samples(3, 1).at(0).body.cpu_count == 8);
  const auto statuses = store.statuses("lab");
  REQUIRE(statuses.size() == 8);
  CHECK(statuses[7].slurm_job == "13_0");
  CHECK(statuses[7].job_state == "PENDING");
  check_is_whole(results);
}

TEST_CASE("a database of a version that is none is refused, and nothing is read as its migration") {
  const ResultsFolder results;
  { Store(results.path()).plan(experiment("lab"), {}); }
  const int version = GENERATE(-1, -64, -2'147'483'647, 0);
  const int id = GENERATE(0, kApplicationId);
  Database(results.database())
      .execute("pragma user_version = " + std::to_string(version) +
               "; pragma application_id = " + std::to_string(id));
  const std::string before = bytes_of(results.database());
  CHECK_THROWS_WITH(Store(results.path()), Catch::Contains(results.database().string()) &&
                                               Catch::Contains("not a database of fsdp-run"));
  CHECK(bytes_of(results.database()) == before);
}

TEST_CASE("a run of version 2 gets another attempt, with what it can report now") {
  const ResultsFolder results;
  write_version(results, 2);
  Store store(results.path());
  CHECK(store.begin_attempt(3, attempt_start()) == 2);
  StepDone done = step_done(1, 10);
  done.skipped = true;
  store.ingest(
      3, 2, 0,
      std::vector{event(0, 5, RunStarted{}), event(1, 6, done),
                  event(2, 7, EvaluationDone{.step = 1, .loss = 2.5, .token_accuracy = 0})});
  store.ingest(3, 2, 1, std::vector{event(0, 5, RunStarted{}), event(1, 6, done)});
  store.end_attempt(3, 2, RunStatus::kFinished, "", 9);
  const ComparisonRow row = store.comparison("lab").at(2);
  CHECK(row.status == RunStatus::kFinished);
  CHECK(row.skipped_steps == 1);
  CHECK(row.validation_loss_best == 2.5);
}

}  // namespace fsdp
