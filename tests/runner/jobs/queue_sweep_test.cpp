#include <catch2/catch.hpp>

#include "runner/cluster/job_loop.h"
#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

TEST_CASE_METHOD(OneRunner,
                 "an array's life: queued, running, finished, and nothing of it is left open") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(3));
  REQUIRE(life.sweep.pick_up());
  REQUIRE(life.sweep.submit(runs));
  CHECK(lab.cluster.submissions == 1);
  for (const RunRecord& run : runs) CHECK(life.status(run.id) == kQueued);

  std::vector<FakeJob> jobs = lab.jobs_of(runs);
  life.happens = {
      [&] {
        lab.begins(jobs[0], "100_0");
        jobs[0].steps(1);
      },
      [&] {
        CHECK(life.status(runs[0].id) == kRunning);
        CHECK(life.status(runs[1].id) == kQueued);
        CHECK(life.store.newest_steps(runs[0].id, 1, 0, 9).size() == 1);
        lab.finishes(jobs[0], "100_0");
        for (int i : {1, 2}) {
          const std::string task = "100_" + std::to_string(i);
          jobs[static_cast<size_t>(i)].starts(1, task);
          lab.cluster.runs(task);
        }
      },
      [&] {
        jobs[1].runs_out_of_memory();
        jobs[2].finishes();
        for (const char* task : {"100_1", "100_2"}) lab.cluster.ends(task);
      },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(life.attempts(runs[1].id) == Statuses{kOutOfMemory});
  CHECK(life.attempts(runs[2].id) == Statuses{kFinished});
  CHECK(life.store.attempts(runs[1].id)[0].slurm_job == "100_1");
  CHECK(life.store.open_jobs("").empty());
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(
    OneRunner,
    "what a reader of the database keeps the follower from recording is recorded after it") {
  const std::vector<RunRecord> runs = submitted(2);
  std::vector<FakeJob> jobs = lab.jobs_of(runs);
  Database reader(lab.results.database());
  life.happens = {
      [&] {
        lab.begins(jobs[0], "100_0");
        jobs[0].steps(1);
        reader.execute("begin; select count(*) from runs");
      },
      [&] {
        jobs[0].steps(2);
        lab.finishes(jobs[0], "100_0");
      },
      [&] {
        CHECK(life.attempts(runs[0].id).empty());
        reader.execute("commit");
        lab.begins(jobs[1], "100_1");
      },
      [&] { lab.finishes(jobs[1], "100_1"); },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  for (const RunRecord& run : runs) CHECK(life.attempts(run.id) == Statuses{kFinished});
  CHECK(life.store.newest_steps(runs[0].id, 1, 0, 2 * FakeJob::kSteps).size() == FakeJob::kSteps);
  CHECK(life.store.open_jobs("").empty());
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner, "a requeued run is an attempt each time, and queued in between") {
  const std::vector<RunRecord> runs = submitted(1);
  const int64_t run = runs[0].id;
  FakeJob job = lab.job(runs[0]);
  life.happens = {
      [&] {
        lab.begins(job, "100_0");
        job.steps(1);
      },
      [&] {
        job.is_asked_to_stop("interrupted");
        lab.cluster.waits_again("100_0");
      },
      [&] {
        CHECK(life.attempts(run) == Statuses{kPreempted});
        CHECK(life.status(run) == kQueued);
        lab.begins(job, "100_0", 2);
      },
      [&] {  // its time limit comes near, and it starts again before the next pass
        job.is_asked_to_stop("time_limit");
        job.starts(3, "100_0");
      },
      [&] {
        CHECK(life.attempts(run) == Statuses{kPreempted, kTimeLimit, kRunning});
        lab.finishes(job, "100_0");
      },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(run) == Statuses{kPreempted, kTimeLimit, kFinished});
  CHECK(life.status(run) == kFinished);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(
    OneRunner,
    "a Slurm that was never seen is an error with what to do, and nothing is submitted") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(1));
  lab.cluster.is_down = true;
  CHECK_THROWS_WITH(life.sweep.submit(runs),
                    Catch::Contains("cannot be reached: slurmctld does not answer") &&
                        Catch::Contains("nothing was submitted") && Catch::Contains("sinfo"));
  CHECK(lab.cluster.submissions == 0);
  CHECK(life.store.open_jobs("").empty());
  CHECK(life.status(runs[0].id) == kPlanned);
}

TEST_CASE_METHOD(OneRunner, "a controller that is down is waited for, and said to be so once") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(2));
  REQUIRE(life.sweep.submit({runs[0]}));
  FakeJob first = lab.job(runs[0]);
  lab.begins_and_finishes(first, "100_0");
  lab.cluster.is_down = true;
  life.happens = {[] {}, [] {}, [&] { lab.cluster.is_down = false; }};
  REQUIRE(life.sweep.submit({runs[1]}));
  FakeJob job = lab.job(runs[1]);
  CHECK(life.progress.count("Slurm does not answer") == 1);
  CHECK(life.progress.count("Slurm answers again") == 1);
  life.happens = {
      [&] {
        lab.cluster.is_down = true;
        lab.begins_and_finishes(job, "101_0");
      },
      [] {},
      [&] {
        // The job's files tell the run's end. Slurm has not reported the job's.
        CHECK(life.attempts(runs[1].id) == Statuses{kFinished});
        CHECK(life.store.open_jobs("").size() == 1);
        lab.cluster.is_down = false;
      },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.progress.count("Slurm does not answer") == 2);
}

TEST_CASE_METHOD(OneRunner, "a job that Slurm has forgotten is what its files say, else unknown") {
  const std::vector<RunRecord> runs = submitted(3);
  FakeJob finished = lab.job(runs[0]), killed = lab.job(runs[1]);
  life.happens = {[&] {
    lab.cluster.known.clear();
    finished.starts(1, "100_0");
    finished.finishes();
    killed.starts(1, "100_1");
    killed.steps(1);
  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(life.attempts(runs[1].id) == Statuses{kUnknown});
  CHECK(life.attempts(runs[2].id).empty());
  CHECK(life.status(runs[2].id) == kUnknown);
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK_FALSE(next.sweep.follows(runs[2].id));
}

TEST_CASE_METHOD(OneRunner, "files that come later than Slurm's word are waited for") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] { lab.cluster.ends("100_0"); },
                  [&] {
                    CHECK(life.status(runs[0].id) == kQueued);
                    job.starts(1, "100_0");
                    job.finishes();
                  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[0].id) == Statuses{kFinished});
}

TEST_CASE_METHOD(
    OneRunner, "the next value of a doubled key is submitted when the last one's result is known") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(2));
  REQUIRE(life.sweep.submit({runs[0]}));
  life.follow_up = [&](const RunRecord& run, RunStatus status) -> std::optional<RunRecord> {
    CHECK(status == kFinished);
    return run.id == runs[0].id ? std::optional(runs[1]) : std::nullopt;
  };
  const auto finishes = [&](size_t index) {
    return [&, index] {
      const std::string task = std::to_string(100 + index) + "_0";
      FakeJob job = lab.job(runs[index]);
      lab.begins_and_finishes(job, task);
    };
  };
  life.happens = {finishes(0), finishes(1)};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[1].id) == Statuses{kFinished});
  CHECK(lab.cluster.submissions == 2);
}

TEST_CASE_METHOD(OneRunner, "two experiments in one folder are followed apart") {
  const std::vector<RunRecord> runs = submitted(1);
  JobRecord other{.experiment = "other",
                  .token = "1",
                  .slurm_job = "7",
                  .mode = "per_run",
                  .folder = "slurm/other-1"};
  JobTask task;
  task.run = life.store.plan(experiment("other"), runs_of_one_shape(1)).front().id;
  other.tasks = {task};
  life.store.record_job(other);
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  FakeJob job = lab.job(runs[0]);
  next.happens = {[&] { lab.begins_and_finishes(job, "100_0"); }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.store.open_jobs("lab").empty());
  CHECK(next.store.open_jobs("other").size() == 1);
}

TEST_CASE("Slurm is asked less and less often while it does not answer") {
  RecordingProgress progress;
  QueuePatience patience;
  std::vector<int64_t> pauses;
  for (int i = 0; i < 8; ++i) {
    patience.no_answer({}, "connection refused", progress);
    pauses.push_back(patience.pause().count());
  }
  CHECK(pauses == std::vector<int64_t>{1, 2, 4, 8, 16, 32, 60, 60});
  patience.answer(progress);
  patience.no_answer({}, "connection refused", progress);
  CHECK(patience.pause() == std::chrono::seconds(1));
  CHECK(progress.count("connection refused") == 2);
}

TEST_CASE_METHOD(OneRunner,
                 "a queue in which nothing changes is asked at most three times in two minutes") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  constexpr int kWaitsOfTwoMinutes = 30;  // a wait takes 4 s
  int earlier_queries = 0;
  life.happens.resize(kWaitsOfTwoMinutes, [] {});
  life.happens.push_back([&] { earlier_queries = lab.cluster.queries; });
  life.happens.resize(life.happens.size() + kWaitsOfTwoMinutes, [] {});
  life.happens.push_back([&] {
    CHECK(lab.cluster.queries - earlier_queries <= 3);
    lab.begins(job, "100_0");
  });
  // Slurm is asked soon after the files report the end.
  life.happens.resize(life.happens.size() + kWaitsOfTwoMinutes, [] {});
  life.happens.push_back([&] {
    CHECK(life.attempts(runs[0].id) == Statuses{kRunning});
    lab.finishes(job, "100_0");
  });
  life.happens.push_back([] {});
  life.happens.push_back([] {});
  life.happens.push_back([&] { CHECK(life.attempts(runs[0].id) == Statuses{kFinished}); });
  CHECK(life.sweep.follow() == ExitCode::kOk);
}

TEST_CASE_METHOD(
    OneRunner,
    "runs that Slurm does not take are given up after a time, and found by the next call") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(1));
  lab.cluster.loses_answers = true;
  life.happens = {[&] { lab.cluster.is_down = true; }};
  CHECK_THROWS_WITH(life.sweep.submit(runs), Catch::Contains("has not answered for 6") &&
                                                 Catch::Contains("1 run to be submitted") &&
                                                 Catch::Contains("sinfo"));
  lab.cluster.is_down = lab.cluster.loses_answers = false;
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK(next.sweep.follows(runs[0].id));
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner, "a run that was unknown goes on if its ranks report more") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.begins(job, "100_0");
                    job.steps(1);
                  },
                  [&] { lab.cluster.known.clear(); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kUnknown});
  SlurmRunnerLife before(lab.results, lab.cluster);
  REQUIRE(before.sweep.pick_up());
  CHECK_FALSE(before.sweep.follows(runs[0].id));
  job.steps(2);
  lab.cluster.runs("100_0");
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK(next.sweep.follows(runs[0].id));
  CHECK(next.attempts(runs[0].id) == Statuses{kRunning});
  next.happens = {[&] { lab.finishes(job, "100_0"); }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner,
                 "a node's clock that is behind is warned of, however long the job waited") {
  FakeJob job = lab.job(submitted(1)[0]);
  job.clock_ms = -90'000;
  life.happens = {[&] { lab.begins(job, "100_0"); }, [&] { lab.finishes(job, "100_0"); }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.progress.count("s behind its runner's") == 1);
}

TEST_CASE_METHOD(OneRunner,
                 "a job that Slurm hides ends by what its ranks and their launcher say") {
  const std::vector<RunRecord> runs = submitted(2);
  std::vector<FakeJob> jobs{lab.job(runs[0]), lab.job(runs[1])};
  life.happens = {[&] {
                    for (int i : {0, 1}) {
                      const std::string task = "100_" + std::to_string(i);
                      jobs[static_cast<size_t>(i)].starts(1, task);
                      lab.cluster.becomes(task, TaskPhase::kEnding, kHiddenState);
                    }
                    jobs[0].finishes();
                  },
                  [] {},
                  [&] {
                    CHECK(life.attempts(runs[0].id) == Statuses{kFinished});
                    CHECK(life.attempts(runs[1].id) == Statuses{kRunning});
                    jobs[1].fails();
                  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[1].id) == Statuses{kFailed});
}

TEST_CASE_METHOD(OneRunner,
                 "an sbatch that fails while squeue answers is called less and less often") {
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(2));
  REQUIRE(life.sweep.submit({runs[0]}));
  life.follow_up = [&](const RunRecord& run, RunStatus) {
    return run.id == runs[0].id ? std::optional(runs[1]) : std::nullopt;
  };
  FakeJob first = lab.job(runs[0]), second = lab.job(runs[1]);
  lab.cluster.fails_to_submit = true;
  life.happens.push_back([&] { lab.begins_and_finishes(first, "100_0"); });
  life.happens.resize(30, [] {});  // two minutes
  life.happens.push_back([&] {
    CHECK(lab.cluster.submissions - 1 <= 8);
    CHECK(life.progress.count("Slurm does not answer") == 1);
    lab.cluster.fails_to_submit = false;
  });
  life.happens.resize(life.happens.size() + 16, [] {});
  life.happens.push_back([&] {
    const std::string task = lab.cluster.known.rbegin()->first;
    lab.begins_and_finishes(second, task);
  });
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[1].id) == Statuses{kFinished});
}
