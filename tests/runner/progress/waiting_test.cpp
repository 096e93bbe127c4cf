#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <utility>

#include "runner/progress/live_view.h"
#include "runner/progress/progress.h"
#include "runner/progress/run_progress.h"
#include "tests/runner/progress/progress_fixture.h"

// The reasons why runs without steps wait, and the time at which a user is told.
namespace fsdp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lists = std::vector<std::vector<Event>>;

const ProgressClock::time_point kStart = ProgressClock::now();

FollowedRun started_run(int64_t ranks) {
  RunProgress outline = planned_progress("4xFSDP", 100);
  outline.ranks = ranks;
  FollowedRun run(std::move(outline));
  run.started = kStart;
  run.set_status(RunStatus::kRunning, kStart);
  return run;
}

Event start_event(int64_t steps) {
  RunStarted started;
  started.steps_planned = steps;
  return {.body = started};
}

FollowedRun loaded_run(int64_t ranks) {
  FollowedRun run = started_run(ranks);
  run.add(Lists(static_cast<size_t>(ranks), {start_event(100)}), kStart);
  return run;
}

Event evaluation_of(int64_t step) {
  EvaluationDone done;
  done.step = step;
  return {.body = done};
}

Event checkpoint_of(int64_t step) {
  CheckpointDone done;
  done.step = step;
  return {.body = done};
}

std::string text_after(const RunProgress& run, seconds time) {
  const std::optional<Waiting> wait = waiting(run, kStart + time);
  REQUIRE(wait);
  return (wait->is_long ? "long: " : "") + waiting_text(*wait, kStart + time);
}

TEST_CASE("before the first step it is said which ranks are missing") {
  FollowedRun run = started_run(4);
  CHECK(text_after(run, seconds(29)) == "29s without a step: no rank has begun");
  CHECK(text_after(run, seconds(31)) == "long: 31s without a step: no rank has begun");
  CHECK(start_text(run) == "starting");
  run.add_begun({true, true, false, true}, kStart + seconds(40));
  CHECK(text_after(run, seconds(50)) ==
        "10s without a step: rendezvous: rank 2 of 4 has not begun");
  CHECK(start_text(run) == "rendezvous");
  run.add_begun({true, true, true, true}, kStart + seconds(60));
  CHECK(text_after(run, seconds(90)) ==
        "long: 30s without a step: rendezvous of all 4 ranks, or loading");
  CHECK(start_text(run) == "starting");
  run.add(Lists{{start_event(9)}, {}, {start_event(9)}, {}}, kStart + seconds(100));
  CHECK(text_after(run, seconds(101)) == "1s without a step: ranks 1, 3 of 4 have not loaded");
  CHECK(start_text(run) == "loading");
}

TEST_CASE("a rank that is behind is named, whatever the others have done") {
  FollowedRun run = loaded_run(3);
  run.add(Lists{{step_event(100, 10, 0)}, {step_event(4, 10, 0)}, {step_event(100, 10, 0)}},
          kStart);
  CHECK(text_after(run, seconds(20)) ==
        "long: 20s without a step: rank 1 of 3 has not done step 100");
  FollowedRun lacks_one = started_run(2);
  lacks_one.add(Lists{{start_event(9), step_event(9, 10, 0)}, {}}, kStart);
  CHECK(text_after(lacks_one, seconds(30)) ==
        "long: 30s without a step: rendezvous: rank 1 of 2 has not begun");
}

TEST_CASE("when all ranks have loaded the first step is waited for") {
  CHECK(text_after(loaded_run(2), seconds(30)) == "long: 30s without a step: in the first step");
  CHECK(start_text(loaded_run(2)) == "first step");
  FollowedRun alone = started_run(1);
  alone.add_begun({true}, kStart);
  CHECK(text_after(alone, seconds(1)) == "1s without a step: loading");
}

TEST_CASE("a step is long when it takes ten times as long as the ones before, and ten seconds") {
  FollowedRun run = loaded_run(1);
  run.add(Lists{{step_event(7, 500, 0)}}, kStart);
  CHECK(text_after(run, seconds(9)) == "9s without a step: after step 7; a step took 500 ms");
  CHECK_THAT(text_after(run, seconds(10)), Catch::StartsWith("long: "));
  FollowedRun slow = loaded_run(1);
  slow.add(Lists{{step_event(7, 5'000, 0)}}, kStart);
  CHECK_FALSE(waiting(slow, kStart + seconds(49))->is_long);
  CHECK(waiting(slow, kStart + seconds(50))->is_long);
}

TEST_CASE("an evaluation or a checkpoint that is due is what a run is at until it is reported") {
  FollowedRun run = loaded_run(1);
  run.evaluates_every = 10;
  run.checkpoints_every = 20;
  run.add(Lists{{step_event(20, 100, 0)}}, kStart);
  CHECK(text_after(run, seconds(29)) == "29s without a step: evaluation after step 20");
  run.add(Lists{{evaluation_of(20)}}, kStart + seconds(40));
  CHECK(text_after(run, seconds(41)) == "1s without a step: checkpoint after step 20");
  run.add(Lists{{checkpoint_of(20)}}, kStart + seconds(50));
  CHECK(waiting(run, kStart + seconds(50))->what == WaitsFor::kStep);
  run.add(Lists{{step_event(100, 100, 0), evaluation_of(100), checkpoint_of(100)}}, kStart);
  CHECK(waiting(run, kStart)->what == WaitsFor::kEnd);
}

TEST_CASE("only runs in a queue or under way wait") {
  CHECK_FALSE(waiting(planned_progress("planned", 1), kStart));
  CHECK_FALSE(waiting(ended_progress("ended", RunStatus::kFinished, 1, 1), kStart));
  RunProgress queued = planned_progress("queued", 1);
  queued.set_status(RunStatus::kQueued, kStart);
  CHECK(text_after(queued, seconds(1)) == "1s in the queue");
  queued.job_reason = "Resources";
  CHECK(text_after(queued, seconds(60)) == "long: 1m 00s in the queue (Resources)");
}

TEST_CASE("a run that starts anew is told from its ranks of then") {
  FollowedRun run = loaded_run(2);
  run.add(Lists{{step_event(7, 500, 0)}, {step_event(7, 500, 0)}}, kStart);
  run.set_status(RunStatus::kRunning, kStart + seconds(60));
  CHECK(text_after(run, seconds(61)) == "1s without a step: no rank has begun");
}

TEST_CASE("a row of the live view says what is waited for, in no more than its width") {
  FollowedRun run = started_run(4);
  run.add_begun({true, true, false, true}, kStart);
  RunProgress queued = planned_progress("queued", 1);
  queued.job = "12";
  queued.job_reason = "Resources";
  queued.set_status(RunStatus::kQueued, kStart);
  const auto row = [&](size_t index, size_t columns, seconds time) {
    return live_view(std::vector<RunProgress>{run, queued}, {}, {.columns = columns}, kStart + time,
                     /*colour=*/false)[index];
  };
  CHECK(row(0, 100, seconds(5)) == "4xFSDP  rendezvous      5s");
  CHECK(row(0, 100, seconds(35)) ==
        "4xFSDP  rendezvous          35s without a step: rendezvous: rank 2 of 4 has not begun");
  CHECK(row(0, 60, seconds(35)) == "4xFSDP  rendezvous          35s without a s…4 has not begun");
  CHECK(row(0, 40, seconds(35)) == "4xFSDP  rendezvous  35s witho…not begun");
  CHECK(row(1, 100, seconds(5)) == "queued  queued      job 12  (Resources)");
  CHECK(row(1, 100, seconds(35)) == "queued  queued      job 12  35s in the queue (Resources)");
}

// Captures all output to a descriptor during its lifetime.
class Captured {
 public:
  explicit Captured(int descriptor) : descriptor_(descriptor), before_(dup(descriptor)) {
    dup2(fileno(file_), descriptor_);
  }
  ~Captured() { release(); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::string text() {
    release();
    rewind(file_);
    std::string text(10'000, '\0');
    text.resize(fread(text.data(), 1, text.size(), file_));
    return text;
  }

 private:
  void release() {
    if (before_ < 0) return;
    dup2(before_, descriptor_);
    close(std::exchange(before_, -1));
  }

  std::FILE* file_ = std::tmpfile();
  int descriptor_;
  int before_;
};

TEST_CASE("a followed run has the ranks of its specification, and the time of its ranks' clock") {
  Captured errors(STDERR_FILENO);
  LineProgress progress;
  progress.expect(1, {.point = "a"});  // before its files are read
  progress.queued(1, "12");
  progress.started(1, {.point = "a", .ranks = 4, .steps = 8});
  Event last = step_event(8, 100, 0);
  last.elapsed_ms = 65'000;
  AttemptReports reports({.ranks = 4});
  reports.add(0, last);
  progress.add(1, reports, std::vector(4, true), {});
  progress.ended(1, RunStatus::kFinished, "", "");
  const std::string text = errors.text();
  CHECK_THAT(text, Catch::Contains("a: started, job 12, 4 ranks, 8 steps\n"));
  CHECK_THAT(text, Catch::Contains("a: finished, 8/8") && Catch::Contains(", 1m 05s\n"));
}

TEST_CASE("runs that wait for the same share a line, and have each one of JSON") {
  const auto told_by = [](Progress& progress, int descriptor) {
    Captured captured(descriptor);
    for (const int64_t id : {1, 2}) {
      progress.expect(id, {.point = "point " + std::to_string(id)});
      progress.queued(id, "12_" + std::to_string(id));
      progress.waits_because(id, "Priority");
    }
    for (const int hours : {1, 2}) {
      progress.refresh(ProgressClock::now() + std::chrono::hours(hours));
    }
    return captured.text();
  };
  LineProgress lines;
  CHECK(told_by(lines, STDERR_FILENO) == "point 1, point 2: 1h 00m in the queue (Priority)\n");
  JsonProgress json;
  CHECK_THAT(told_by(json, STDOUT_FILENO),
             Catch::Contains(R"x({"kind":"run_waits","point":"point 2","for":"queue",)x"
                             R"x("text":"in the queue (Priority)","seconds":3600.)x"));
}

// Keeps the messages about waiting runs.
class RecordedWaits : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view) override {}

  std::vector<std::string> told;

 private:
  void show(const RunProgress&) override {}
  void update(ProgressClock::time_point) override {}
  void show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point) override {
    for (const auto& [run, waiting] : runs) told.push_back(run->point + ": " + waiting.text);
  }
};

TEST_CASE("a wait is told once, and again when there is another") {
  RecordedWaits progress;
  progress.started(1, {.point = "a", .steps = 9});
  const ProgressClock::time_point now = ProgressClock::now();
  progress.refresh(now);
  CHECK(progress.told.empty());
  for (const seconds later : {seconds(60), seconds(61), seconds(600)})
    progress.refresh(now + later);
  CHECK(progress.told == std::vector<std::string>{"a: no rank has begun"});
  AttemptReports reports({.ranks = 1});
  reports.add(0, start_event(9));
  progress.add(1, reports, {true}, {});
  for (const seconds later : {seconds(60), seconds(600)}) progress.refresh(now + later);
  CHECK(progress.told == std::vector<std::string>{"a: no rank has begun", "a: in the first step"});
  reports.add(0, step_event(1, 10, 0));
  progress.add(1, reports, {true}, {});
  progress.ended(1, RunStatus::kFinished, "", {});
  progress.refresh(now + seconds(6000));
  CHECK(progress.told.size() == 2);
}

}  // namespace
}  // namespace fsdp
