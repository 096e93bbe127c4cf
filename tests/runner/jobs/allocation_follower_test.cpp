#include <catch2/catch.hpp>

#include "base/files/file_digest.h"
#include "runner/cluster/job_plan.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_planner.h"
#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

TEST_CASE_METHOD(
    OneRunner,
    "a job that has ended before its runner looks has done all values of a doubled key") {
  std::vector<RunRecord> planned;
  for (const char* value : {"1", "2", "4"}) {
    planned.push_back(planned_run(value, 1, value));
    planned.back().spec.slurm.mode = SlurmMode::kAllocation;
    planned.back().family = "size";
    planned.back().family_value = std::stoi(value);
  }
  const std::vector<RunRecord> runs = life.plan(in_order(planned));
  std::vector<int64_t> asked;
  life.follow_up = [&](const RunRecord& run, RunStatus) -> std::optional<RunRecord> {
    asked.push_back(run.id);
    if (run.id == runs.back().id) return std::nullopt;
    return *(std::ranges::find(runs, run.id, &RunRecord::id) + 1);
  };
  REQUIRE(life.sweep.submit({runs[0]}));
  for (const RunRecord& run : runs) {
    FakeJob ranks(lab.results.path(), run);
    ranks.starts(1, "100");
    ranks.finishes();
  }
  lab.cluster.ends("100");
  SECTION("the runner that submitted it") {
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(asked == std::vector{runs[0].id, runs[1].id, runs[2].id});
  }
  SECTION("two calls of status, each of which looks once") {
    for (int i = 0; i < 2; ++i) CHECK(refresh(life.store, lab.results, &lab.cluster).empty());
  }
  for (const RunRecord& run : runs) {
    CHECK(life.attempts(run.id) == std::vector{RunStatus::kFinished});
  }
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE_METHOD(OneRunner, "Slurm's word on a job's end is about the attempt that ended last") {
  const std::vector<RunRecord> runs = submitted(two_runs(SlurmMode::kAllocation));
  FakeJob first = lab.job(runs[0]), second = lab.job(runs[1]);
  second.clock_ms = 1000;  // it ends later
  life.happens = {[&] {
                    lab.begins(first, "100");
                    first.fails();
                    second.starts(1, "100");
                  },
                  [&] {
                    second.says("failed");
                    lab.cluster.ends("100", "OUT_OF_MEMORY");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kFailed});
  CHECK(life.attempts(runs[1].id) == Statuses{kOutOfHostMemory});
}

TEST_CASE_METHOD(OneRunner, "a run that has ended in a job stays so when the job is requeued") {
  const std::vector<RunRecord> runs = submitted(two_runs(SlurmMode::kAllocation));
  FakeJob first(lab.results.path(), runs[0]), second(lab.results.path(), runs[1]);
  life.happens = {[&] {
                    lab.cluster.runs("100");
                    first.starts(1, "100");
                    first.finishes();
                    second.starts(1, "100");
                  },
                  [&] {
                    second.is_asked_to_stop("time_limit");
                    lab.cluster.waits_again("100");
                  },
                  [] {},
                  [] {},
                  [] {},
                  [&] {
                    CHECK(life.status(runs[0].id) == RunStatus::kFinished);
                    CHECK(life.status(runs[1].id) == RunStatus::kQueued);
                    lab.cluster.runs("100");
                    second.starts(2, "100");
                    second.finishes();
                    lab.cluster.ends("100");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].id) == RunStatus::kFinished);
  CHECK(life.status(runs[1].id) == RunStatus::kFinished);
}

TEST_CASE_METHOD(
    OneRunner, "one job for all runs: each has ended when its files say so, and the job goes on") {
  std::vector<RunRecord> planned = runs_of_one_shape(3);
  for (auto& run : planned) run.spec.slurm.mode = SlurmMode::kAllocation;
  planned[1].family = planned[2].family = "size";
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit({runs[0], runs[1]}));
  CHECK(lab.cluster.submissions == 1);
  CHECK(lab.cluster.known.contains("100"));
  std::vector<FakeJob> jobs = lab.jobs_of(runs);
  SECTION("what a doubled key comes to next is done in it") {
    life.happens = {
        [&] {
          lab.begins(jobs[0], "100");
          jobs[0].finishes();
        },
        [&] {
          CHECK(life.status(runs[0].id) == kFinished);
          CHECK(life.sweep.follows(runs[1].id));
          jobs[1].starts(1, "100");
          jobs[1].finishes();
        },
        [&] { jobs[2].starts(1, "100"); },
        [] {},
        [&] {
          CHECK(life.sweep.follows(runs[2].id));
          jobs[2].runs_out_of_memory();
          lab.cluster.ends("100");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].id) == Statuses{kOutOfMemory});
  }
  SECTION("also when the job is over before that is known") {
    life.happens = {[&] {
      for (FakeJob& ranks : jobs) {
        ranks.starts(1, "100");
        ranks.finishes();
      }
      lab.cluster.ends("100");
    }};
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].id) == Statuses{kFinished});
  }
  SECTION("a run that came near the time limit goes on in it when it is requeued") {
    life.happens = {
        [&] {
          lab.begins(jobs[0], "100");
          jobs[0].is_asked_to_stop("time_limit");
        },
        [&] { lab.cluster.waits_again("100"); },
        [&] {
          CHECK(life.attempts(runs[0].id) == Statuses{kTimeLimit});
          lab.begins(jobs[0], "100", 2);
          jobs[0].finishes();
          jobs[1].starts(1, "100");
        },
        [&] {
          CHECK(life.attempts(runs[0].id) == Statuses{kTimeLimit, kFinished});
          lab.cluster.becomes("100", TaskPhase::kEnded, "CANCELLED");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kRunFailed);
    CHECK(life.attempts(runs[1].id) == Statuses{kCancelled});
  }
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE_METHOD(OneRunner, "a value that a job chose in a --rerun went on from old checkpoints") {
  const TemporaryFolder folder;
  const Experiment lab_experiment = Experiment::load(folder.write(
      "lab.yaml",
      "experiment: lab\nbase: {device: cpu, checkpoint.at_end: true, slurm.mode: allocation}\n"
      "sweep: {double: {batch.size_per_rank: {from: 1, to: 2}}}\n"));
  const Expansion expansion = lab_experiment.expand({.on_cluster = true}, {});
  RunPlanner planner(
      life.store, file_digest,
      {.device_kind = slurm_device_kind, .rerun = GENERATE(false, true), .say = [](auto&) {}});
  const std::vector<RunRecord> runs = planner.plan(
      experiment("lab"), expansion, planned_runs("lab", expansion.runs, file_digest), {});
  life.follow_up = [&](const RunRecord& ended, RunStatus status) {
    return planner.after(ended, status);
  };
  REQUIRE(life.sweep.submit(runs));
  FakeJob first = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.begins(first, "100");
                    first.finishes();
                  },
                  [] {}, [&] { lab.cluster.ends("100", "NODE_FAIL"); }};
  life.happens.resize(40, [&] { life.is_asked_to_stop = lab.cluster.submissions == 2; });
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  REQUIRE(lab.cluster.submissions == 2);
  const auto again = read_record<JobRun>(lab.submission(life.store) / "run-0.json");
  CHECK(again.run.family_value == 2);
  CHECK(again.begins_anew == runs[0].begins_anew);
}
