#include <sys/types.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runner/cluster/job_plan.h"
#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

TEST_CASE_METHOD(OneRunner,
                 "a runner that ends leaves all to the next, which submits nothing again") {
  const std::vector<RunRecord> runs = submitted(2);
  life.is_asked_to_stop = true;
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  FakeJob first = lab.job(runs[0]);
  lab.begins_and_finishes(first, "100_0");
  FakeJob second = lab.job(runs[1]);
  lab.begins(second, "100_1");

  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK_FALSE(next.sweep.follows(runs[0].id));
  CHECK(next.sweep.follows(runs[1].id));
  next.happens = {[&] { lab.finishes(second, "100_1"); }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  for (const RunRecord& run : runs) CHECK(next.attempts(run.id) == Statuses{kFinished});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner, "an attempt that an earlier runner began to follow goes on") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.begins(job, "100_0");
                    job.steps(1);
                  },
                  [&] { life.is_asked_to_stop = true; }};
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  CHECK(life.status(runs[0].id) == kRunning);
  job.steps(2);
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  next.happens = {[&] { lab.finishes(job, "100_0"); }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.store.newest_steps(runs[0].id, 1, 0, 99).size() == 20);
  CHECK(next.attempts(runs[0].id) == Statuses{kFinished});
}

TEST_CASE_METHOD(OneRunner, "a submission whose answer was lost is not repeated") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(2));
  lab.cluster.loses_answers = true;
  SECTION("by the same runner") {
    REQUIRE(life.sweep.submit(runs));
    CHECK(lab.cluster.submissions == 1);
    CHECK(life.sweep.follows(runs[0].id));
    CHECK(life.store.open_jobs("lab").at(0).slurm_job == "100");
  }
  SECTION("by the next one, the first having been killed") {
    life.is_asked_to_stop = true;
    REQUIRE_FALSE(life.sweep.submit(runs));
    CHECK(life.store.open_jobs("lab").at(0).slurm_job.empty());
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    CHECK(next.sweep.follows(runs[0].id));
    CHECK(next.status(runs[1].id) == kQueued);
    CHECK(lab.cluster.submissions == 1);
  }
  SECTION("by the next one, the job having started, ended and been forgotten") {
    life.is_asked_to_stop = true;
    REQUIRE_FALSE(life.sweep.submit(runs));
    lab.cluster.forgets_all();
    REQUIRE(claim_submission(lab.submission(life.store), "100") == "100");
    FakeJob job = lab.job(runs[0]);
    job.starts(1, "100_0");
    job.finishes();
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    CHECK(next.attempts(runs[0].id) == Statuses{kFinished});
  }
}

TEST_CASE_METHOD(OneRunner, "an ended job that Slurm started again had an attempt in no table") {
  const std::vector<RunRecord> runs = submitted(1);
  const RunPaths paths(lab.results.path() / runs[0].folder);
  const std::string first = lab.submission(life.store).filename();
  life.happens = {[&] { lab.cluster.becomes("100_0", TaskPhase::kEnded, "CANCELLED", ""); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  FakeJob again = lab.job(runs[0]);
  SECTION("before the next call, which follows it") {
    lab.begins(again, "100_0");
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    CHECK(next.sweep.follows(runs[0].id));
    next.happens = {[&] { lab.finishes(again, "100_0"); }};
    CHECK(next.sweep.follow() == ExitCode::kOk);
    CHECK(next.attempts(runs[0].id) == Statuses{kFinished});
  }
  SECTION("after the run was submitted again: it may not begin, and what it began is read") {
    CHECK(belongs_to(first, paths));
    again.starts(1, "100_0");
    again.steps(3);
    REQUIRE(life.sweep.submit(runs));
    CHECK_FALSE(belongs_to(first, paths));
    CHECK(belongs_to(lab.submission(life.store).filename(), paths));
    FakeJob job = lab.job(runs[0]);
    life.happens = {[&] { lab.begins(job, "101_0", 2); }, [&] { lab.finishes(job, "101_0"); }};
    life.sweep.follow();
    CHECK(life.attempts(runs[0].id) == Statuses{kRunning, kFinished});
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    next.sweep.follow();
    CHECK(next.attempts(runs[0].id) == Statuses{kCancelled, kFinished});
    CHECK(next.status(runs[0].id) == kFinished);
    CHECK(next.store.newest_steps(runs[0].id, 1, 0, 99).size() == 3);
  }
  SECTION("after a runner outside of jobs took the run") {
    take_run(paths, "");
    CHECK_FALSE(belongs_to(first, paths));
  }
}

TEST_CASE_METHOD(OneRunner, "an ended job was reopened by a later one of the same number") {
  const std::vector<RunRecord> runs = submitted(1);
  life.happens = {[&] { lab.cluster.becomes("100_0", TaskPhase::kEnded, "CANCELLED", ""); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  lab.cluster.begins_numbers_anew();
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  lab.begins(job, "100_0");
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK(next.store.open_jobs("lab").size() == 1);
  next.happens = {[&] { lab.finishes(job, "100_0"); }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.attempts(runs[0].id) == Statuses{kFinished});
}

TEST_CASE_METHOD(OneRunner, "what never reached Slurm is forgotten by the next runner") {
  const std::vector<RunRecord> runs = submitted_without_answer(1);
  lab.cluster.forgets_all();
  const std::filesystem::path folder = lab.submission(life.store);
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK_FALSE(next.sweep.follows(runs[0].id));
  CHECK(next.store.open_jobs("").empty());
  CHECK(next.status(runs[0].id) == kPlanned);
  CHECK(claim_submission(folder, "100") == kWithdrawn);  // if it reaches Slurm later
}

TEST_CASE_METHOD(OneRunner,
                 "a submission that Slurm takes up after its runner gave it up does nothing") {
  const std::vector<RunRecord> runs = submitted_without_answer(2);
  const std::filesystem::path first = lab.submission(life.store);
  lab.cluster.scripts.clear();
  lab.cluster.loses_answers = life.is_asked_to_stop = false;
  REQUIRE(life.sweep.submit({}));
  CHECK(lab.cluster.submissions == 2);
  CHECK(life.store.open_jobs("lab").size() == 1);
  CHECK(lab.submission(life.store) != first);
  CHECK(claim_submission(first, "100") == kWithdrawn);
  CHECK(claim_submission(lab.submission(life.store), "101") == "101");
}

TEST_CASE_METHOD(OneRunner,
                 "another user who is to submit withdraws a submission without an answer") {
  if (geteuid() != 0) return;  // nobody else can be another user
  const std::vector<RunRecord> runs = submitted_without_answer(1);
  const std::filesystem::path folder = lab.submission(life.store);
  lab.cluster.forgets_all();
  constexpr uid_t kSomeoneElse = 65534;
  REQUIRE(chown(folder.c_str(), kSomeoneElse, static_cast<gid_t>(-1)) == 0);
  SECTION("but not one who only asks for the status") {
    CHECK(refresh(life.store, lab.results, &lab.cluster).empty());
    CHECK(life.store.open_jobs("").size() == 1);
    CHECK(job_of_submission(folder) == std::nullopt);
    CHECK(claim_submission(folder, "100") == "100");
  }
  SECTION("so that a late job of it does nothing, and the runs are in no job") {
    SlurmRunnerLife other(lab.results, lab.cluster);
    REQUIRE(other.sweep.pick_up());
    CHECK(other.store.open_jobs("").empty());
    CHECK_FALSE(other.sweep.follows(runs[0].id));
    CHECK(claim_submission(folder, "100") == kWithdrawn);
  }
  SECTION("unless its job has started") {
    REQUIRE(claim_submission(folder, "100") == "100");
    SlurmRunnerLife other(lab.results, lab.cluster);
    REQUIRE(other.sweep.pick_up());
    CHECK(other.store.open_jobs("").at(0).slurm_job == "100");
    CHECK(other.sweep.follows(runs[0].id));
  }
}

TEST_CASE_METHOD(
    OneRunner,
    "a submission of another user that cannot be withdrawn is an error with what to do") {
  if (geteuid() != 0) return;  // nobody else can be another user
  const std::vector<RunRecord> runs = submitted_without_answer(1);
  lab.cluster.forgets_all();
  const std::filesystem::path folder = lab.submission(life.store);
  const bool is_hidden = GENERATE(false, true);
  std::filesystem::permissions(lab.results.path(), std::filesystem::perms(is_hidden ? 0700 : 0755));
  std::string said;
  constexpr uid_t kSomeoneElse = 65534;
  REQUIRE(seteuid(kSomeoneElse) == 0);
  try {
    life.sweep.pick_up();
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  REQUIRE(seteuid(0) == 0);
  if (!is_hidden) CHECK_THAT(said, Catch::StartsWith("root submitted runs, and sbatch gave no"));
  CHECK_THAT(said, Catch::Contains("cannot claim " + folder.string()));
  CHECK(life.store.open_jobs("").size() == 1);
  CHECK(claim_submission(folder, "100") == "100");
}

TEST_CASE_METHOD(OneRunner,
                 "an attempt without an event holds its nodes until the last sign of life") {
  using std::chrono::hours;
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  job.clock_ms = -std::chrono::milliseconds(hours(3)).count();
  job.starts(1, "100_0");
  const RunPaths paths(lab.results.path() / runs[0].folder);
  std::filesystem::remove(paths.events(1, 0));
  const auto file_now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(paths.launch_record(1), file_now - hours(3));
  std::ofstream(paths.log(1, 0)) << "loading\n";
  std::filesystem::last_write_time(paths.log(1, 0), file_now - hours(2));
  const auto held = [&] {
    const AttemptRecord attempt = life.store.attempts(runs[0].id).at(0);
    const auto end = std::chrono::milliseconds(attempt.ended_unix_ms.value());
    return std::chrono::round<hours>(end - std::chrono::milliseconds(attempt.started_unix_ms));
  };
  SECTION("by its files") {
    life.happens = {[&] { lab.cluster.ends("100_0", "FAILED"); }};
    CHECK(life.sweep.follow() == ExitCode::kRunFailed);
    CHECK(held() == hours(1));
  }
  SECTION("by Slurm") {
    life.happens = {[&] { lab.cluster.runs("100_0"); },
                    [&] { lab.cluster.ends("100_0", "FAILED"); }};
    CHECK(life.sweep.follow() == ExitCode::kRunFailed);
    CHECK(held() == hours(3));
  }
}

TEST_CASE_METHOD(OneRunner, "a report brings open jobs up to date and submits nothing") {
  std::vector<RunRecord> planned = runs_of_one_shape(2, /*checkpoint_steps=*/1);
  for (auto& run : planned) run.spec.slurm.time = "1:00:00";
  const std::vector<RunRecord> runs = submitted(planned);
  FakeJob job = lab.job(runs[0]);
  job.starts(1, "100_0");
  job.steps(1);
  lab.cluster.ends("100_0", "PREEMPTED");
  CHECK(refresh(life.store, lab.results, &lab.cluster).empty());
  CHECK(life.attempts(runs[0].id) == Statuses{kPreempted});
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").size() == 1);

  const int queries = lab.cluster.queries;
  lab.job(runs[1]).starts(1, "100_1");
  SECTION("between two questions to Slurm it reads files") {
    CHECK(refresh(life.store, lab.results, nullptr).empty());
    CHECK(lab.cluster.queries == queries);
  }
  SECTION("what it cannot ask about, it reads") {
    lab.cluster.is_down = true;
    CHECK(refresh(life.store, lab.results, &lab.cluster) == std::set<std::string>{"lab"});
  }
  CHECK(life.attempts(runs[1].id) == Statuses{kRunning});
}
