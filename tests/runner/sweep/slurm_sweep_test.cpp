#include "runner/sweep/slurm_sweep.h"

#include <catch2/catch.hpp>

#include "runner/sweep/refresh_jobs.h"
#include "tests/runner/sweep/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

namespace {

using Statuses = std::vector<RunStatus>;

// Runs of one shape, of one rank, on a cluster.
std::vector<Store::PlannedRun> planned_runs(int count, int64_t checkpoint_steps = 0) {
  std::vector<Store::PlannedRun> runs;
  for (int i = 0; i < count; ++i) {
    Store::PlannedRun run = planned_run("run" + std::to_string(i), 1, std::to_string(i));
    if (checkpoint_steps > 0) run.spec.checkpoint.every_steps = checkpoint_steps;
    runs.push_back(std::move(run));
  }
  return in_order(std::move(runs));
}

struct Laboratory {
  ResultsFolder results;
  FakeCluster cluster;

  FakeJob job(const RunToLaunch& run) const { return {results.path(), run.record}; }
};

}  // namespace

TEST_CASE("an array's life: queued, running, finished, and nothing of it is left open") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(3));
  REQUIRE(life.sweep.pick_up());
  REQUIRE(life.sweep.submit(runs));
  CHECK(lab.cluster.submissions == 1);
  for (const RunToLaunch& run : runs) CHECK(life.status(run.record.id) == kQueued);

  std::vector<FakeJob> jobs;
  for (const RunToLaunch& run : runs) jobs.push_back(lab.job(run));
  life.happens = {
      [&] {
        lab.cluster.runs("100_0");
        jobs[0].starts(1, "100_0");
        jobs[0].steps(1);
      },
      [&] {
        CHECK(life.status(runs[0].record.id) == kRunning);
        CHECK(life.status(runs[1].record.id) == kQueued);
        CHECK(life.store.newest_steps(runs[0].record.id, 1, 0, 9).size() == 1);
        jobs[0].finishes();
        lab.cluster.ends("100_0");
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
  CHECK(life.attempts(runs[0].record.id) == Statuses{kFinished});
  CHECK(life.attempts(runs[1].record.id) == Statuses{kOutOfMemory});
  CHECK(life.attempts(runs[2].record.id) == Statuses{kFinished});
  CHECK(life.store.attempts(runs[1].record.id)[0].slurm_job == "100_1");
  CHECK(life.store.open_jobs("").empty());
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("a requeued run is an attempt each time, and queued in between") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  const int64_t run = runs[0].record.id;
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  life.happens = {
      [&] {
        lab.cluster.runs("100_0");
        job.starts(1, "100_0");
        job.steps(1);
      },
      [&] {
        job.is_asked_to_stop("interrupted");
        lab.cluster.waits_again("100_0");
      },
      [&] {
        CHECK(life.attempts(run) == Statuses{kPreempted});
        CHECK(life.status(run) == kQueued);
        lab.cluster.runs("100_0");
        job.starts(2, "100_0");
      },
      [&] {  // its time limit came near; by the time of the next look it has begun again
        job.is_asked_to_stop("time_limit");
        job.starts(3, "100_0");
      },
      [&] {
        CHECK(life.attempts(run) == Statuses{kPreempted, kTimeLimit, kRunning});
        job.finishes();
        lab.cluster.ends("100_0");
      },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(run) == Statuses{kPreempted, kTimeLimit, kFinished});
  CHECK(life.status(run) == kFinished);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("a runner that ends leaves all to the next, which submits nothing again") {
  Laboratory lab;
  std::vector<RunToLaunch> runs;
  {
    SlurmRunnerLife life(lab.results, lab.cluster);
    runs = life.plan(planned_runs(2));
    REQUIRE(life.sweep.submit(runs));
    life.is_asked_to_stop = true;
    CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  }
  FakeJob first = lab.job(runs[0]);
  first.starts(1, "100_0");
  first.finishes();
  lab.cluster.ends("100_0");
  FakeJob second = lab.job(runs[1]);
  second.starts(1, "100_1");
  lab.cluster.runs("100_1");

  SlurmRunnerLife life(lab.results, lab.cluster);
  REQUIRE(life.sweep.pick_up());
  CHECK_FALSE(life.sweep.follows(runs[0].record.id));
  CHECK(life.sweep.follows(runs[1].record.id));
  life.happens = {[&] {
    second.finishes();
    lab.cluster.ends("100_1");
  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kFinished});
  CHECK(life.attempts(runs[1].record.id) == Statuses{kFinished});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("an attempt that an earlier runner began to follow goes on") {
  Laboratory lab;
  std::vector<RunToLaunch> runs;
  std::optional<FakeJob> job;
  {
    SlurmRunnerLife life(lab.results, lab.cluster);
    runs = life.plan(planned_runs(1));
    job.emplace(lab.job(runs[0]));
    REQUIRE(life.sweep.submit(runs));
    life.happens = {[&] {
                      job->starts(1, "100_0");
                      job->steps(1);
                      lab.cluster.runs("100_0");
                    },
                    [&] { life.is_asked_to_stop = true; }};
    CHECK(life.sweep.follow() == ExitCode::kInterrupted);
    CHECK(life.status(runs[0].record.id) == kRunning);
  }
  job->steps(2);
  SlurmRunnerLife life(lab.results, lab.cluster);
  REQUIRE(life.sweep.pick_up());
  life.happens = {[&] {
    job->finishes();
    lab.cluster.ends("100_0");
  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.store.newest_steps(runs[0].record.id, 1, 0, 9).size() == 2);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kFinished});
}

TEST_CASE("a submission whose answer was lost is not repeated") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(2));
  lab.cluster.loses_answers = true;
  SECTION("by the same runner") {
    REQUIRE(life.sweep.submit(runs));
    CHECK(lab.cluster.submissions == 1);
    CHECK(life.sweep.follows(runs[0].record.id));
    CHECK(life.store.open_jobs("lab").at(0).slurm_job == "100");
  }
  SECTION("by the next one, the first having been killed") {
    life.is_asked_to_stop = true;
    REQUIRE_FALSE(life.sweep.submit(runs));
    CHECK(life.store.open_jobs("lab").at(0).slurm_job.empty());
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    CHECK(next.sweep.follows(runs[0].record.id));
    CHECK(next.status(runs[1].record.id) == kQueued);
    CHECK(lab.cluster.submissions == 1);
  }
  SECTION("by the next one, the job having started, ended and been forgotten") {
    life.is_asked_to_stop = true;
    REQUIRE_FALSE(life.sweep.submit(runs));
    lab.cluster.tokens.clear();
    lab.cluster.known.clear();
    FakeJob job = lab.job(runs[0]);
    job.starts(1, "100_0");
    job.finishes();
    SlurmRunnerLife next(lab.results, lab.cluster);
    REQUIRE(next.sweep.pick_up());
    CHECK(next.attempts(runs[0].record.id) == Statuses{kFinished});
  }
}

TEST_CASE("what never reached Slurm is forgotten by the next runner") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  lab.cluster.loses_answers = true;
  life.is_asked_to_stop = true;
  REQUIRE_FALSE(life.sweep.submit(runs));
  lab.cluster.tokens.clear();
  lab.cluster.known.clear();
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  CHECK_FALSE(next.sweep.follows(runs[0].record.id));
  CHECK(next.store.open_jobs("").empty());
  CHECK(next.status(runs[0].record.id) == kPlanned);
}

TEST_CASE("a controller that is down is waited for, and said to be so once") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  FakeJob job = lab.job(runs[0]);
  lab.cluster.is_down = true;
  life.happens = {[] {}, [] {}, [&] { lab.cluster.is_down = false; }};
  REQUIRE(life.sweep.submit(runs));
  CHECK(life.progress.count("Slurm does not answer") == 1);
  CHECK(life.progress.count("Slurm answers again") == 1);
  life.happens = {
      [&] {
        lab.cluster.is_down = true;
        job.starts(1, "100_0");
        job.finishes();
        lab.cluster.ends("100_0");
      },
      [] {},
      [&] {
        // What it wrote is read; that it is over is not known.
        CHECK(life.attempts(runs[0].record.id) == Statuses{kRunning});
        lab.cluster.is_down = false;
      },
  };
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.progress.count("Slurm does not answer") == 2);
}

TEST_CASE("a job that Slurm has forgotten is what its files say, else unknown") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(3));
  REQUIRE(life.sweep.submit(runs));
  FakeJob finished = lab.job(runs[0]), killed = lab.job(runs[1]);
  life.happens = {[&] {
    lab.cluster.known.clear();
    finished.starts(1, "100_0");
    finished.finishes();
    killed.starts(1, "100_1");
    killed.steps(1);
  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kFinished});
  CHECK(life.attempts(runs[1].record.id) == Statuses{kUnknown});
  CHECK(life.attempts(runs[2].record.id).empty());
  CHECK(life.status(runs[2].record.id) == kUnknown);
}

TEST_CASE("files that come later than Slurm's word are waited for") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] { lab.cluster.ends("100_0"); },
                  [&] {
                    CHECK(life.status(runs[0].record.id) == kQueued);
                    job.starts(1, "100_0");
                    job.finishes();
                  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kFinished});
}

TEST_CASE("what the cluster ended without requeue is submitted again, not for ever") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<Store::PlannedRun> planned = planned_runs(1, /*checkpoint_steps=*/1);
  planned[0].spec.slurm.max_restarts = 2;
  planned[0].spec.slurm.time = "1:00:00";
  const std::vector<RunToLaunch> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  const auto ends_as = [&](int attempt, const std::string& state) {
    return [&, attempt, state] {
      const std::string task = std::to_string(99 + attempt) + "_0";
      job.starts(attempt, task);
      job.steps(attempt);
      lab.cluster.ends(task, state);
    };
  };
  const auto nothing = [] {};
  life.happens = {ends_as(1, "PREEMPTED"), nothing, nothing,
                  ends_as(2, "NODE_FAIL"), nothing, nothing,
                  ends_as(3, "TIMEOUT")};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kPreempted, kNodeFailed, kTimeLimit});
  CHECK(lab.cluster.submissions == 3);
}

TEST_CASE("a run without checkpoints is not repeated after a time limit") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
    job.starts(1, "100_0");
    lab.cluster.ends("100_0", "TIMEOUT");
  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].record.id) == Statuses{kTimeLimit});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("a run that is cancelled while it waits has no attempt, and is not repeated") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  REQUIRE(life.sweep.submit(runs));
  life.happens = {[&] { lab.cluster.becomes("100_0", TaskPhase::kEnded, "CANCELLED", ""); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].record.id).empty());
  CHECK(life.status(runs[0].record.id) == kCancelled);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("runs that Slurm refuses have failed with its words, and others go on") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<Store::PlannedRun> planned = planned_runs(2);
  planned[1].spec.slurm.partition = "other";
  const std::vector<RunToLaunch> runs = life.plan(planned);
  lab.cluster.refused_script = "--partition=other";
  REQUIRE(life.sweep.submit(runs));
  CHECK(life.status(runs[0].record.id) == kQueued);
  CHECK(life.status(runs[1].record.id) == kFailed);
  CHECK(life.progress.count("invalid partition") == 1);
  CHECK(life.store.open_jobs("").size() == 1);
}

TEST_CASE("where submitted jobs are limited, what fits is submitted, and the rest later") {
  Laboratory lab;
  lab.cluster.most_waiting = 3;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(5));
  REQUIRE(life.sweep.submit(runs));
  const auto queued = [&] {
    return std::ranges::count_if(
        runs, [&](const RunToLaunch& run) { return life.status(run.record.id) == kQueued; });
  };
  CHECK(queued() == 3);
  const auto all_finish = [&] {
    for (const RunToLaunch& run : runs) {
      const std::vector<JobRecord> jobs = life.store.jobs_of_run(run.record.id);
      if (jobs.empty() || jobs.back().tasks[0].over) continue;
      const std::string task = slurm_name(jobs.back(), jobs.back().tasks[0].task);
      FakeJob job = lab.job(run);
      job.starts(1, task);
      job.finishes();
      lab.cluster.ends(task);
    }
  };
  life.happens = {all_finish, [] {}, all_finish};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  for (const RunToLaunch& run : runs) CHECK(life.attempts(run.record.id) == Statuses{kFinished});
}

TEST_CASE("an array has no more tasks than the cluster allows") {
  Laboratory lab;
  lab.cluster.limits_.max_array_size = 2;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(5));
  REQUIRE(life.sweep.submit(runs));
  CHECK(lab.cluster.submissions == 3);
  CHECK(lab.cluster.known.contains("102_0"));
  CHECK_FALSE(lab.cluster.known.contains("100_2"));
}

TEST_CASE("what keeps a job from starting is said at once, and once") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(2));
  REQUIRE(life.sweep.submit(runs));
  for (const char* task : {"100_0", "100_1"}) {
    lab.cluster.known[task].reason = "PartitionDown";
  }
  life.happens = {[] {}, [] {}, [&] { life.is_asked_to_stop = true; }};
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  CHECK(life.progress.count("does not start") == 1);
}

TEST_CASE("the next value of a doubled key is submitted when the last one's result is known") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(2));
  REQUIRE(life.sweep.submit({runs[0]}));
  life.follow_up = [&](const RunToLaunch& run, RunStatus status) -> std::optional<RunToLaunch> {
    CHECK(status == kFinished);
    return run.record.id == runs[0].record.id ? std::optional(runs[1]) : std::nullopt;
  };
  const auto finishes = [&](size_t index) {
    return [&, index] {
      const std::string task = std::to_string(100 + index) + "_0";
      FakeJob job = lab.job(runs[index]);
      job.starts(1, task);
      job.finishes();
      lab.cluster.ends(task);
    };
  };
  life.happens = {finishes(0), finishes(1)};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(runs[1].record.id) == Statuses{kFinished});
  CHECK(lab.cluster.submissions == 2);
}

TEST_CASE("a report brings open jobs up to date and submits nothing") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<Store::PlannedRun> planned = planned_runs(2, /*checkpoint_steps=*/1);
  for (auto& run : planned) run.spec.slurm.time = "1:00:00";
  const std::vector<RunToLaunch> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  job.starts(1, "100_0");
  job.steps(1);
  lab.cluster.ends("100_0", "PREEMPTED");
  std::chrono::steady_clock::time_point now{};
  const Pauses pauses{.now = [&] { return now; },
                      .wait =
                          [&](std::chrono::milliseconds time) {
                            now += time;
                            return false;
                          }};
  CHECK(refresh_free_jobs(life.store, lab.results.path(), lab.cluster, pauses).empty());
  CHECK(life.attempts(runs[0].record.id) == Statuses{kPreempted});
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").size() == 1);

  SECTION("what it cannot ask about, it reads") {
    lab.cluster.is_down = true;
    FakeJob other = lab.job(runs[1]);
    other.starts(1, "100_1");
    CHECK(refresh_free_jobs(life.store, lab.results.path(), lab.cluster, pauses) ==
          std::set<std::string>{"lab"});
    CHECK(life.attempts(runs[1].record.id) == Statuses{kRunning});
  }
}

TEST_CASE("one job for all runs: each has ended when its files say so, and the job goes on") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<Store::PlannedRun> planned = planned_runs(3);
  for (auto& run : planned) run.spec.slurm.mode = SlurmMode::kAllocation;
  const std::vector<RunToLaunch> runs = life.plan(planned);
  REQUIRE(life.sweep.submit({runs[0], runs[1]}));
  CHECK(lab.cluster.submissions == 1);
  CHECK(lab.cluster.known.contains("100"));
  std::vector<FakeJob> jobs;
  for (const RunToLaunch& run : runs) jobs.push_back(lab.job(run));
  life.follow_up = [&](const RunToLaunch& run, RunStatus status) -> std::optional<RunToLaunch> {
    const bool is_doubled = run.record.id == runs[1].record.id && status == kFinished;
    return is_doubled ? std::optional(runs[2]) : std::nullopt;
  };
  SECTION("what a doubled key comes to next is done in it") {
    life.happens = {
        [&] {
          lab.cluster.runs("100");
          jobs[0].starts(1, "100");
          jobs[0].finishes();
        },
        [&] {
          CHECK(life.status(runs[0].record.id) == kFinished);
          CHECK(life.sweep.follows(runs[1].record.id));
          jobs[1].starts(1, "100");
          jobs[1].finishes();
        },
        [&] { CHECK(life.sweep.follows(runs[2].record.id)); },
        [&] {
          jobs[2].starts(1, "100");
          jobs[2].runs_out_of_memory();
          lab.cluster.ends("100");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].record.id) == Statuses{kOutOfMemory});
  }
  SECTION("also when the job is over before that is known") {
    life.happens = {[&] {
      for (FakeJob& job : jobs) {
        job.starts(1, "100");
        job.finishes();
      }
      lab.cluster.ends("100");
    }};
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].record.id) == Statuses{kFinished});
  }
  SECTION("a run that came near the time limit goes on in it when it is requeued") {
    life.happens = {
        [&] {
          lab.cluster.runs("100");
          jobs[0].starts(1, "100");
          jobs[0].is_asked_to_stop("time_limit");
        },
        [&] { lab.cluster.waits_again("100"); },
        [&] {
          CHECK(life.attempts(runs[0].record.id) == Statuses{kTimeLimit});
          lab.cluster.runs("100");
          jobs[0].starts(2, "100");
          jobs[0].finishes();
          jobs[1].starts(1, "100");
        },
        [&] {
          CHECK(life.attempts(runs[0].record.id) == Statuses{kTimeLimit, kFinished});
          lab.cluster.becomes("100", TaskPhase::kEnded, "CANCELLED");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kRunFailed);
    CHECK(life.attempts(runs[1].record.id) == Statuses{kCancelled});
  }
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE("a run whose job was requeued once too often is what ended it") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<Store::PlannedRun> planned = planned_runs(1);
  planned[0].spec.slurm.max_restarts = 0;
  const std::vector<RunToLaunch> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.cluster.runs("100_0");
                    job.starts(1, "100_0");
                  },
                  [&] {
                    job.is_asked_to_stop("interrupted");
                    lab.cluster.waits_again("100_0");
                  },
                  [&] { lab.cluster.ends("100_0", "FAILED"); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.status(runs[0].record.id) == kPreempted);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("two experiments in one folder are followed apart") {
  Laboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunToLaunch> runs = life.plan(planned_runs(1));
  REQUIRE(life.sweep.submit(runs));
  JobRecord other{.experiment = "other", .token = "1", .slurm_job = "7", .mode = "per_run"};
  JobTask task;
  task.run = life.store.plan(experiment("other"), planned_runs(1)).front().id;
  other.tasks = {task};
  life.store.record_job(other);
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  FakeJob job = lab.job(runs[0]);
  next.happens = {[&] {
    job.starts(1, "100_0");
    job.finishes();
    lab.cluster.ends("100_0");
  }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.store.open_jobs("lab").empty());
  CHECK(next.store.open_jobs("other").size() == 1);
}

TEST_CASE("Slurm is asked less and less often while it does not answer") {
  RecordingProgress progress;
  SlurmPatience patience;
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
