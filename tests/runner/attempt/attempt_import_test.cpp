#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "runner/run/earlier_attempts.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Warnings = std::vector<std::string>;

AttemptStart start_in_job(const std::string& job, int64_t started_unix_ms) {
  AttemptStart start;
  start.started_unix_ms = started_unix_ms;
  start.host = "n\"1";
  start.slurm_job = job;
  start.node_list = "n[1-2]";
  start.provenance.cpu_name = "CPU of " + job;
  return start;
}

// A run of a job, as the runner has recorded it, and the folder that the job writes into.
struct Submitted {
  explicit Submitted(const std::string& slurm_job = "12") {
    const std::vector runs{planned_run("point", 1)};
    run = store.plan(experiment("lab"), runs).front();
    store.tell_of_files([this](const std::string& line) { warnings.push_back(line); });
    submit(slurm_job, "t0ken");
  }

  void submit(const std::string& slurm_job, const std::string& token) {
    job = JobRecord();
    job.experiment = "lab";
    job.token = token;
    job.folder = "slurm/lab-" + token;
    job.slurm_job = slurm_job;
    job.mode = "per_run";
    job.tasks = {{.task = 3, .run = run.id, .device_kind = "cpu"}};
    store.record_job(job);
  }

  RunPaths paths() const { return RunPaths(results.path() / run.folder); }

  void begin(int attempt, const std::string& job) const {
    std::filesystem::create_directories(paths().attempt(attempt));
    write_start(paths(), attempt, start_in_job(job, 1'000 * attempt));
  }

  // Returns the attempts that are new in the store.
  std::vector<int> import() {
    const std::vector<AttemptRecord> known = store.attempts(run.id);
    store.sync({run.folder});
    std::vector<int> imported;
    for (const AttemptRecord& each : store.attempts(run.id)) {
      if (std::ranges::find(known, each.attempt, &AttemptRecord::attempt) == known.end()) {
        imported.push_back(each.attempt);
      }
    }
    return imported;
  }

  ResultsFolder results;
  Store store{results.path()};
  RunRecord run;
  JobRecord job;  // the newest job
  Warnings warnings;
};

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST_CASE("the records of an attempt in a job are read as they were written") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  std::filesystem::create_directories(paths.attempt(2));
  const WarnOfFile never = [](const std::string& line) { FAIL(line); };
  CHECK_FALSE(read_start(paths, 2, never));
  CHECK(read_end(paths, 2, never).outcome == LaunchOutcome::kUnseen);
  AttemptStart written = start_in_job("12_3", 7);
  written.provenance.git_dirty = true;
  written.prediction.step_time_ms_predicted = 1.5;
  write_start(paths, 2, written);
  write_end(paths, 2,
            {.outcome = LaunchOutcome::kTimeLimit,
             .reason = "the time\tlimit",
             .first_rank = 4,
             .ended_unix_ms = 9,
             .inputs_compared = true});
  const auto start = read_start(paths, 2, never);
  REQUIRE(start);
  CHECK(start->slurm_job == "12_3");
  CHECK(start->node_list == "n[1-2]");
  CHECK(start->host == "n\"1");
  CHECK(start->started_unix_ms == 7);
  CHECK(start->provenance.git_dirty == true);
  CHECK(start->prediction.step_time_ms_predicted == 1.5);
  const AttemptEnd end = read_end(paths, 2, never);
  CHECK(end.ended_unix_ms == 9);
  CHECK(end.outcome == LaunchOutcome::kTimeLimit);
  CHECK(end.reason == "the time\tlimit");
  CHECK(end.first_rank == 4);
  CHECK(end.inputs_compared == true);
  CHECK_FALSE(end.changed_input);
  const std::filesystem::directory_iterator files(paths.attempt(2));
  CHECK(std::distance(begin(files), std::filesystem::directory_iterator()) == 2);
}

TEST_CASE("a record that no job has written is not there, and the warning names it") {
  const std::string text = GENERATE(
      as<std::string>(), "", "{", R"({"ended_unix_ms": 9, "outcome": "exited", "reason": "")",
      R"({"ended_unix_ms": 9, "reason": "", "first_rank": -1})",
      R"({"ended_unix_ms": -9, "outcome": "exited"})",
      R"({"ended_unix_ms": 1e300, "outcome": "exited"})",
      R"({"ended_unix_ms": "9", "outcome": "exited", "reason": "", "first_rank": -1})",
      R"({"ended_unix_ms": 9, "outcome": "happy", "reason": "", "first_rank": -1})", "[]", "null",
      "\xff\xfe{}");
  CAPTURE(text);
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  write_text(paths.end_record(1), text);
  Warnings warnings;
  CHECK(read_end(paths, 1, [&](auto& line) { warnings.push_back(line); }).outcome ==
        LaunchOutcome::kUnseen);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("attempt-1/end.json"));
}

TEST_CASE("a pipe in the place of a record holds nobody up") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  std::filesystem::create_directories(paths.attempt(1));
  REQUIRE(mkfifo(paths.end_record(1).c_str(), 0600) == 0);
  Warnings warnings;
  CHECK(read_end(paths, 1, [&](auto& line) { warnings.push_back(line); }).outcome ==
        LaunchOutcome::kUnseen);
  CHECK(warnings.size() == 1);
}

TEST_CASE("an end that an earlier version wrote is an end") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  write_text(paths.end_record(1), R"({"ended_unix_ms": 9, "outcome": "exited"})");
  CHECK(read_end(paths, 1, [](auto& line) { FAIL(line); }).outcome == LaunchOutcome::kExited);
}

TEST_CASE("attempts that a job has begun are begun in the store, once") {
  Submitted job;
  CHECK(job.import().empty());
  job.begin(1, "12_3");
  job.begin(2, "12_3");
  CHECK(job.import() == std::vector{1, 2});
  CHECK(job.import().empty());
  const auto attempts = job.store.attempts(job.run.id);
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[1].status == RunStatus::kRunning);
  CHECK(attempts[1].slurm_job == "12_3");
  CHECK(attempts[1].node_list == "n[1-2]");
  CHECK(attempts[1].host == "n\"1");
  CHECK(attempts[1].started_unix_ms == 2'000);
  CHECK(job.store.provenance(job.run.id, 1).cpu_name == "CPU of 12_3");
  CHECK(job.store.run(job.run.id)->status == RunStatus::kRunning);
  job.begin(3, "12_3");
  CHECK(job.import() == std::vector{3});
  CHECK(job.warnings.empty());
}

TEST_CASE("an attempt belongs to the job that it names") {
  Submitted run;
  run.begin(1, "12_3");
  run.submit("15", "second");
  run.begin(2, "15_3");
  CHECK(run.import() == std::vector{1, 2});
  CHECK(run.store.provenance(run.run.id, 1).cpu_name == "CPU of 12_3");
  CHECK(run.store.provenance(run.run.id, 2).cpu_name == "CPU of 15_3");
}

TEST_CASE("a folder without a whole launch.json is looked at again, and hides no later attempt") {
  Submitted job;
  std::filesystem::create_directories(job.paths().attempt(1));
  CHECK(job.import().empty());
  write_text(job.paths().launch_record(1), "{\"job\": \"12");
  CHECK(job.import().empty());
  CHECK(job.warnings.size() == 1);
  CHECK(job.store.attempts(job.run.id).empty());
  job.begin(1, "12_3");
  CHECK(job.import() == std::vector{1});
  std::filesystem::create_directories(job.paths().attempt(2));
  job.begin(3, "12_3");
  CHECK(job.import() == std::vector{3});
}

TEST_CASE("an attempt that a killed runner began in files only is recorded by the next one") {
  Submitted run;
  AttemptStart start = start_in_job("", 1'000);
  start.provenance.git_commit = "c0ffee";
  std::filesystem::create_directories(run.paths().attempt(3));  // attempts 1 and 2 were deleted
  write_start(run.paths(), 3, start);
  AttemptEnd end;
  end.outcome = LaunchOutcome::kFailed;
  end.reason = "rank 0 exited with status 1";
  end.ended_unix_ms = 2'000;
  end.inputs_compared = true;
  const bool has_ended = GENERATE(true, false);
  if (has_ended) write_end(run.paths(), 3, end);
  recover_attempts(run.store, run.results.path(), "lab", [](const std::string&) {});
  const auto attempts = run.store.attempts(run.run.id);
  REQUIRE(attempts.size() == 1);
  CHECK(attempts[0].attempt == 3);
  CHECK(attempts[0].status == (has_ended ? RunStatus::kFailed : RunStatus::kInterrupted));
  CHECK(run.store.provenance(run.run.id, 3).git_commit == "c0ffee");
}

TEST_CASE("an attempt of a job that the lost database knew is recorded if it has ended") {
  const ResultsFolder results;
  Store store(results.path());
  const RunRecord run = store.plan(experiment("lab"), std::vector{planned_run("point", 1)}).front();
  const RunPaths paths(results.path() / run.folder);
  std::filesystem::create_directories(paths.attempt(1));
  write_start(paths, 1, start_in_job("12_3", 1'000));
  const bool has_ended = GENERATE(true, false);
  if (has_ended) {
    write_end(paths, 1,
              {.outcome = LaunchOutcome::kFailed,
               .reason = "rank 0 exited with status 1",
               .ended_unix_ms = 2'000,
               .inputs_compared = true});
  }
  const int recorded = recover_attempts(store, results.path(), "lab", [](auto&) {});
  CHECK(recorded == (has_ended ? 1 : 0));
  const auto attempts = store.attempts(run.id);
  REQUIRE(attempts.size() == 1);
  CHECK(attempts[0].status == (has_ended ? RunStatus::kFailed : RunStatus::kRunning));
}

TEST_CASE("an attempt below later ones, of a job that ended or of a runner, is recorded") {
  Submitted run;
  run.store.end_attempt(run.run.id, run.store.begin_attempt(run.run.id, attempt_start(), 2),
                        RunStatus::kFinished, "", 5'000);
  const bool is_of_job = GENERATE(true, false);
  run.begin(1, is_of_job ? "12_3" : "");
  write_end(run.paths(), 1,
            {.outcome = LaunchOutcome::kFailed,
             .reason = "rank 0 exited with status 1",
             .ended_unix_ms = 2'000,
             .inputs_compared = true});
  const auto ignore = [](const std::string&) {};
  const auto recover = [&] {
    return recover_attempts(run.store, run.results.path(), "lab", ignore);
  };
  if (is_of_job) {
    CHECK(recover() == 0);  // who follows the job records it
    run.job.tasks.front().over = true;
    run.store.update_task(run.store.jobs_of_run(run.run.id).front().id, run.job.tasks.front());
  }
  CHECK(recover() == 1);
  const auto attempts = run.store.attempts(run.run.id);
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].attempt == 1);
  CHECK(attempts[0].status == RunStatus::kFailed);
  CHECK(run.store.run(run.run.id)->status == RunStatus::kFinished);
}

}  // namespace
}  // namespace fsdp
