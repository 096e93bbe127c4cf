#include "runner/progress/run_progress.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/runner/progress/progress_fixture.h"

using namespace fsdp;
using std::chrono::seconds;

TEST_CASE("a run's figures come from its ranks' events") {
  FollowedRun run({.point = "4xDDP", .ranks = 2, .steps = 100});
  CHECK(figures_text(run) == "no step");
  CHECK_FALSE(seconds_left(run));
  run.status = RunStatus::kRunning;
  run.add(
      std::vector<std::vector<Event>>{{step_event(1, 500, 10 << 20), step_event(2, 500, 10 << 20)},
                                      {step_event(1, 500, 12 << 20)}},
      ProgressClock::now());
  CHECK(figures_text(run) == "2/100  loss 2.5000  500 ms a step  0.0117 GiB");
  CHECK(seconds_left(run) == 49);
}

TEST_CASE("a run began when its ranks say, also if its runner came late") {
  const ProgressClock::time_point now = ProgressClock::now();
  FollowedRun run({.point = "run", .started = now - std::chrono::milliseconds(2)});
  Event first = step_event(1, 500, 0), last = step_event(2, 500, 0);
  first.elapsed_ms = 1'000;
  last.elapsed_ms = 5'000;
  run.add(std::vector<std::vector<Event>>{{first, last}}, now);
  CHECK(*run.started == now - seconds(5));
}

TEST_CASE("a loss that is not finite is said to be so") {
  FollowedRun run({.point = "run", .steps = 1});
  Event event = step_event(1, 500, 0);
  std::get<StepDone>(event.body).loss.reset();
  run.add(std::vector<std::vector<Event>>{{event}}, ProgressClock::now());
  CHECK(figures_text(run) == "1/1  loss not finite  500 ms a step  0.00 GiB");
}

TEST_CASE("what a run's trainer says of its steps outranks what was planned") {
  FollowedRun run({.point = "run", .steps = 0});
  RunStarted started;
  started.steps_planned = 40;
  started.resumed_from_step = 30;
  run.add(std::vector<std::vector<Event>>{{{.body = started}, step_event(31, 1000, 0)}},
          ProgressClock::now());
  CHECK(steps_text(run) == "31/40");
  CHECK(seconds_left(run) == 9);
}

TEST_CASE("the time that a sweep takes follows from its finished runs and their steps") {
  const ProgressClock::time_point now = ProgressClock::now();
  std::vector<RunProgress> runs(2, planned_progress("planned", 100));
  CHECK_FALSE(seconds_left(runs, now));  // no run has taken a step

  runs.push_back(ended_progress("finished", RunStatus::kFinished, 50, 25));  // 0.5 s a step
  CHECK(seconds_left(runs, now) == 100);

  runs.push_back(ended_progress("failed", RunStatus::kFailed, 50, 1000));
  CHECK(seconds_left(runs, now) == 100);

  RunProgress starting = planned_progress("starting", 100);
  starting.status = RunStatus::kRunning;
  starting.started = now - seconds(20);
  runs.push_back(starting);
  CHECK(seconds_left(runs, now) == 100 + 30);

  runs.push_back(starting);  // side by side: half the time
  CHECK(seconds_left(runs, now) == (100 + 30 + 30) / 2);
}

TEST_CASE("the time left does not jump where the batches of runs differ") {
  const ProgressClock::time_point now = ProgressClock::now();
  const auto with_batch = [](RunProgress run, double tokens) {
    run.tokens_of_step = tokens;
    return run;
  };
  // Both runs take equally many tokens: 48 steps of 4 rows, and 6 steps of 32.
  const std::vector<RunProgress> runs{
      with_batch(ended_progress("1 GPU", RunStatus::kFinished, 48, 24), 4 * 128),
      with_batch(planned_progress("batch 8", 6), 32 * 128)};
  CHECK(seconds_left(runs, now) == 24);
}

TEST_CASE("a run whose steps only its trainer knows takes the mean time of the others") {
  const std::vector<RunProgress> runs{planned_progress("planned", 0),
                                      ended_progress("a", RunStatus::kFinished, 10, 20),
                                      ended_progress("b", RunStatus::kFinished, 10, 40)};
  CHECK(seconds_left(runs, ProgressClock::now()) == 30);
}

TEST_CASE("what is remarkable among a rank's events has lines of its own") {
  RunStarted started;
  CHECK(remarks("lab", std::vector<Event>{{.body = started}, step_event(1, 10, 0)}).empty());
  started.resumed_from_step = 20;
  started.warning = "the data is not read to its end";
  EvaluationDone evaluation{.step = 25, .loss = 1.23456, .token_accuracy = 0.3124};
  EvaluationDone not_finite{.step = 30, .loss = {}, .non_finite = true, .token_accuracy = 0};
  EvaluationDone without_labels{.step = 35, .loss = {}, .token_accuracy = {}};
  CheckpointDone checkpoint{
      .step = 30, .path = "checkpoints/step-30", .size_bytes = 12 << 20, .write_time_ms = 2'345};
  std::vector<std::string> lines, warnings;
  for (const Remark& remark : remarks("lab", std::vector<Event>{{.body = started},
                                                                {.body = evaluation},
                                                                {.body = not_finite},
                                                                {.body = without_labels},
                                                                {.body = checkpoint}})) {
    (remark.is_warning ? warnings : lines).push_back(remark.line);
  }
  CHECK(warnings == std::vector<std::string>{"lab: warning: the data is not read to its end"});
  CHECK(lines ==
        std::vector<std::string>{
            "lab: goes on from step 20", "lab: step 25  validation loss 1.2346  accuracy 31.2 %",
            "lab: step 30  validation loss not finite  accuracy 0.0 %",
            "lab: step 35  validation loss unknown: no row of the validation set has labels",
            "lab: step 30  checkpoint checkpoints/step-30  0.0117 GiB  2.3 s"});
}

TEST_CASE("durations are short") {
  CHECK(duration_text(0.4) == "0s");
  CHECK(duration_text(185) == "3m 05s");
  CHECK(duration_text(7500) == "2h 05m");
}

TEST_CASE("figures of progress are never cut, however large") {
  CHECK(duration_text(1e300) == "1.00e+300s");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "infs");
  CHECK(duration_text(-185) == "-3m 05s");
  CHECK(loss_text(3.79e35) == "3.79e+35");
  CHECK(loss_text(1e308) == "1.00e+308");
  RunProgress run{.point = "lab", .steps = std::numeric_limits<int64_t>::max()};
  run.attempt.step = std::numeric_limits<int64_t>::min();
  run.attempt.step_time_ms = 1e308;
  CHECK(seconds_left(run) == std::numeric_limits<double>::infinity());
}
